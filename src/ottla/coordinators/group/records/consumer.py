"""Groups of the consumer protocol (KIP-848): the group, its members, what each is to own, and owns.

Each is a record of its own, so that a heartbeat writes only what it changed. How they stand in the
log is in `consumer_codec`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.protocol.primitives import Uuid

# Partitions by the topic's id. The order of topics is kept by the log, and says nothing.
Partitions = Mapping[Uuid, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ConsumerGroupSaved:
    """The group's epoch, and a hash of the topics it is subscribed to, as they were then."""

    group: str
    epoch: int
    metadata_hash: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerGroupForgotten:
    """There is no such group of the consumer protocol any more."""

    group: str


@dataclass(frozen=True, slots=True)
class ClassicMember:
    """What a member that speaks the classic protocol brought: its protocols, best first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerMemberSaved:
    """Who a member is and what it subscribes to. `classic` is None if it speaks the new protocol.

    The regular expression is "" or None where there is none: Kafka writes both.
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
    classic: ClassicMember | None = None

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol. A part without protocols is no classic member's:
        so Kafka reads what it wrote before there was such a part."""
        return self.classic is not None and bool(self.classic.protocols)


@dataclass(frozen=True, slots=True)
class ConsumerMemberForgotten:
    """A member has left, or was fenced."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class TargetEpochSaved:
    """All target assignments of this epoch are written; `assigned_ms`: when, or 0."""

    group: str
    epoch: int
    assigned_ms: int = 0


@dataclass(frozen=True, slots=True)
class TargetEpochForgotten:
    """The group has no target assignment any more."""

    group: str


@dataclass(frozen=True, slots=True)
class TargetAssignmentSaved:
    """What a member is to own in the end."""

    group: str
    member_id: str
    partitions: Partitions


@dataclass(frozen=True, slots=True)
class TargetAssignmentForgotten:
    """A member is to own nothing."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class CurrentAssignmentSaved:
    """Where a member stands: its epoch and state, what it owns and what it has yet to give up.

    The epochs at which a topic's partitions were assigned, in the order of the partitions, are
    known (by Kafka 4.3 and later) or the topic is not among them.
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
class CurrentAssignmentForgotten:
    """A member owns nothing any more."""

    group: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RegexResolved:
    """The topics that a regular expression matched, at a version of the metadata and a time."""

    group: str
    regex: str
    topics: tuple[str, ...]
    version: int
    resolved_ms: int


@dataclass(frozen=True, slots=True)
class RegexForgotten:
    """No member of the group uses the regular expression any more."""

    group: str
    regex: str
