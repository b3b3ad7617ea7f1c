"""The records of consumer groups (KIP-848): groups, members, target and current assignments.

A heartbeat writes only the records that it changed. `consumer_codec` encodes them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.protocol.primitives import Uuid

# Partitions by topic id. The order of the topics is kept by the log and has no meaning.
Partitions = Mapping[Uuid, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ConsumerGroupSaved:
    """The group's epoch, and a hash of its subscribed topics at that epoch."""

    group: str
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerGroupTombstone:
    """The consumer group was removed."""

    group: str


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """The session timeout and the protocols of a classic member, the preferred protocol first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMemberSaved:
    """A member and its subscription. `classic` is None if it uses the consumer protocol.

    Without a regular expression `regex` is "" or None: Kafka writes both.
    """

    group: str
    member_id: str
    instance_id: str | None
    rack: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMetadata | None = None

    @property
    def is_classic(self) -> bool:
        """Whether it uses the classic protocol.

        Metadata without protocols does not count: this is how Kafka reads its older records, which
        lack the field.
        """
        return self.classic is not None and bool(self.classic.protocols)


@dataclass(frozen=True, slots=True)
class ConsumerMemberTombstone:
    """A member has left, or was fenced."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class TargetEpochSaved:
    """All target assignments of this epoch are written, at time `assigned_ms` (0: unknown)."""

    group: str
    epoch: int
    assigned_ms: int = 0


@dataclass(frozen=True, slots=True)
class TargetEpochTombstone:
    """The group's target assignment was removed."""

    group: str


@dataclass(frozen=True, slots=True)
class TargetAssignmentSaved:
    """A member's target assignment."""

    group: str
    member_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class TargetAssignmentTombstone:
    """A member's target assignment was removed."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class CurrentAssignmentSaved:
    """A member's epoch, state, assigned partitions, and partitions that it has yet to revoke.

    `assigned_epochs` and `revoking_epochs` have, per topic and in the order of its partitions, the
    epochs at which these were assigned. Records of Kafka before 4.3 have none: then the topic is
    missing.
    """

    group: str
    member_id: str
    epoch: int
    previous_epoch: int
    state: int
    assigned: Partitions
    revoking: Partitions
    assigned_epochs: Partitions = field(default_factory=dict)
    revoking_epochs: Partitions = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CurrentAssignmentTombstone:
    """A member's current assignment was removed."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RegexResolved:
    """The topics that a regular expression matched, with the metadata version and the time."""

    group: str
    regex: str
    topics: tuple[str, ...]
    version: int
    resolved_ms: int


@dataclass(frozen=True, slots=True)
class RegexTombstone:
    """No member of the group uses the regular expression."""

    group: str
    regex: str
