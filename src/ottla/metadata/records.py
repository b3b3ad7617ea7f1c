"""The records of the metadata log, and the check that a record is consistent.

Every record has the complete state of its subject, so that the last record of a subject is enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ottla.metadata.json_codec import ADDED_LATER
from ottla.metadata.topic_names import LEGAL_CHARACTERS, NAME_CHARACTERS_MAX
from ottla.metadata.values import (
    AclBinding,
    BrokerState,
    Count,
    Endpoint,
    Incarnation,
    Int16,
    Int32,
    Int64,
    Name,
    PartitionId,
    QuotaEntity,
    ResourceKind,
    ScramCredential,
    ScramMechanism,
    Text,
)
from ottla.protocol.primitives import ZERO_UUID, Uuid

# The members of partitions whose check is remembered.
MEMBERS_CACHED_MAX = 4_096


class InvalidRecord(ValueError):
    """A record that contradicts itself. Our own fault."""


# The names of classes and fields are the format on disk: a change of a name is a new format. A new
# field is `ADDED_LATER`, with a default for older records.


@dataclass(frozen=True, slots=True)
class ControllerStarted:
    """A new controller: no entry of an earlier controller follows.

    `broker_id` is the controller; None in records of earlier versions.
    """

    epoch: Int32
    broker_id: Int32 | None = field(default=None, metadata=ADDED_LATER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The newest incarnation of a broker.

    `inherits` is the epoch of its previous incarnation, if that left its disks intact. If that one
    ended before its own partitions named its epoch, `also_inherits` has the epochs that they name.
    `incarnation_id` is the random id of the incarnation; None in records of earlier versions.
    `damaged` are the partitions whose logs are not intact. Once the broker is up, it inherits
    nothing more and has no damage left to tell. `offline` are the partitions whose logs it cannot
    read or write: for these it does not count as live.
    """

    broker_id: Int32
    epoch: Int64
    inherits: Int64 | None
    endpoints: tuple[Endpoint, ...]
    rack: Name | None
    host: Name
    state: BrokerState
    incarnation_id: Name | None = field(default=None, metadata=ADDED_LATER)
    also_inherits: tuple[Int64, ...] = field(default=(), metadata=ADDED_LATER)
    damaged: tuple[PartitionId, ...] = field(default=(), metadata=ADDED_LATER)
    offline: tuple[PartitionId, ...] = field(default=(), metadata=ADDED_LATER)

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.broker_id, self.epoch)

    @property
    def inherited_epochs(self) -> tuple[int, ...]:
        """The epochs whose memberships belong to this incarnation."""
        return () if self.inherits is None else (self.inherits, *self.also_inherits)

    @property
    def is_live(self) -> bool:
        """Whether its session lasts, so that it can lead partitions."""
        return self.state is not BrokerState.GONE


@dataclass(frozen=True, slots=True)
class Topic:
    """A new topic; its `Partition` records follow. Its name says whether it is internal."""

    name: Name
    topic_id: Uuid


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic was deleted, with its partitions and configs."""

    topic_id: Uuid
    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The replicas, the in-sync replicas and the leader of a partition.

    `isr` and `elr` (eligible leader replicas outside of the ISR) name incarnations. `unclean` names
    replicas that restarted and may have lost records. `leader` is None if there is no leader.
    `possible_loss_epoch` is the leader epoch that began with a leader that may have lost records;
    None once all replicas are in sync again. `originals` are the replicas before the reassignment
    in progress, in their order; empty if none is, and in records of earlier versions.
    """

    topic_id: Uuid
    index: Int32
    replicas: tuple[Int32, ...]
    adding: tuple[Int32, ...] = ()
    removing: tuple[Int32, ...] = ()
    leader: Incarnation | None
    leader_epoch: Int32
    isr: tuple[Incarnation, ...]
    elr: tuple[Incarnation, ...] = ()
    unclean: tuple[Int32, ...] = ()
    min_isr: Count
    partition_epoch: Int32
    possible_loss_epoch: Int32 | None = field(default=None, metadata=ADDED_LATER)
    originals: tuple[Int32, ...] = field(default=(), metadata=ADDED_LATER)


@dataclass(frozen=True, slots=True)
class Config:
    """One config of a resource; None removes it."""

    kind: ResourceKind
    name: Text
    key: Name
    value: Text | None


@dataclass(frozen=True, slots=True)
class Acl:
    """An ACL binding is added (`in_force`) or removed."""

    binding: AclBinding
    in_force: bool


@dataclass(frozen=True, slots=True)
class User:
    """A user's credential for one mechanism; None removes it."""

    name: Name
    mechanism: ScramMechanism
    credential: ScramCredential | None


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota of an entity, by Kafka's key (`producer_byte_rate`); None removes it."""

    entity: tuple[QuotaEntity, ...]
    key: Name
    value: float | None


@dataclass(frozen=True, slots=True)
class ProducerIds:
    """Every producer id below `next_id` may be in use."""

    next_id: Int64


@dataclass(frozen=True, slots=True)
class Feature:
    """The finalized level of a feature, where 0 disables it; None: its default level."""

    name: Name
    level: Int16 | None


@dataclass(frozen=True, slots=True)
class EpochFloor:
    """New partitions of all topics start at this leader epoch or above.

    Deleted names whose first epoch is not above it are no longer remembered.
    """

    epoch: Int32


@dataclass(frozen=True, slots=True)
class DeletedName:
    """A topic of this name was deleted: new partitions of the name start at this leader epoch or
    above.
    """

    name: Name
    epoch: Int32


Record = (
    ControllerStarted
    | Broker
    | Topic
    | TopicDeleted
    | Partition
    | Config
    | Acl
    | User
    | Quota
    | ProducerIds
    | Feature
    | EpochFloor
    | DeletedName
)


def check(record: Record) -> None:
    """InvalidRecord if the record contradicts itself. Other records are not considered."""
    if isinstance(record, Partition):
        _check_partition(record)
    elif isinstance(record, Broker):
        _require_distinct("listeners", [endpoint.listener for endpoint in record.endpoints])
    elif isinstance(record, Topic):
        _check_topic(record)
    elif isinstance(record, Quota):
        _check_quota(record)


def _check_partition(partition: Partition) -> None:
    _check_members(
        partition.replicas,
        partition.adding,
        partition.removing,
        partition.isr,
        partition.elr,
        partition.unclean,
        partition.originals,
    )
    if partition.leader is not None and partition.leader not in partition.isr:
        raise InvalidRecord(f"the leader, {partition.leader}, is not in the isr")
    if (partition.possible_loss_epoch or 0) > partition.leader_epoch:
        raise InvalidRecord(f"a loss in leader epoch {partition.possible_loss_epoch}, to come")


# A record is checked when it is decided, written, read and applied, and most partitions have the
# same members as others.
@lru_cache(MEMBERS_CACHED_MAX)
def _check_members(
    replicas: tuple[int, ...],
    adding: tuple[int, ...],
    removing: tuple[int, ...],
    isr: tuple[Incarnation, ...],
    elr: tuple[Incarnation, ...],
    unclean: tuple[int, ...],
    originals: tuple[int, ...],
) -> None:
    if not replicas:
        raise InvalidRecord("a partition without replicas")
    _require_distinct("replicas", replicas)
    _require_distinct("adding and removing", adding + removing)
    members = [member.broker_id for member in isr + elr]
    _require_distinct("isr, elr and unclean", [*members, *unclean])
    _require_distinct("originals", originals)
    moving = {*adding, *removing}
    others = {*members, *unclean, *moving, *originals}.difference(replicas)
    if others:
        raise InvalidRecord(f"broker {min(others)} is none of the replicas")
    if originals and not moving:
        raise InvalidRecord("originals, though no replica is moving")


def _check_topic(topic: Topic) -> None:
    is_legal = 0 < len(topic.name) <= NAME_CHARACTERS_MAX and LEGAL_CHARACTERS.issuperset(
        topic.name
    )
    if not is_legal or topic.name in (".", ".."):
        raise InvalidRecord(f"{topic.name[:40]!r} is no name for a topic")
    if topic.topic_id == ZERO_UUID:
        raise InvalidRecord("a topic id of nothing but zeros")


def _check_quota(quota: Quota) -> None:
    kinds = [part.kind for part in quota.entity]
    if not kinds:
        raise InvalidRecord("a quota for nobody")
    # A fixed order, so that equal entities have equal keys.
    if kinds != sorted(set(kinds)):
        raise InvalidRecord("the parts of a quota's entity are not in order")


def _require_distinct(what: str, items: Sequence[Any]) -> None:
    if len(items) > 1 and len(set(items)) != len(items):
        raise InvalidRecord(f"{what} name one twice")
