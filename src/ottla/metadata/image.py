"""The metadata image: the state after all records of the metadata log up to an offset.

Every image is built by `apply`, record by record: on the controller, on every other broker, after a
restart and from a snapshot. A record that breaks the rules below should never have been written: it
is our own fault, and the image cannot continue.

- A partition's first record has the next free index, and a leader epoch at or above the first epoch
  of its topic's name. Every later record raises the partition epoch by one, and the leader epoch by
  one exactly if the leader's incarnation changed.
- The first epoch of a name is 0 until a topic of that name is deleted. It is the maximum of the
  epoch remembered for the deleted name and the floor. The floor applies to every name and covers
  the deleted names that are not remembered.
- Before a topic is deleted, the first epoch of its name is raised above every leader epoch of its
  partitions, so that a later topic of that name never reuses one.
- The controller's epoch, the floor, the first epoch of a name, and the next producer id never fall.
- A broker's epoch never falls. Within one epoch its state only advances, its incarnation id stays,
  and the inherited epochs stay until it is up.

The records of a snapshot obey the same rules: the first record of a partition may have any
partition epoch, and the floor and the deleted names come after all partitions.
"""

import copy
from collections.abc import Collection, Iterator, KeysView, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeVar, assert_never

from ottla.metadata.records import (
    Acl,
    Broker,
    Config,
    ControllerStarted,
    DeletedName,
    EpochFloor,
    Feature,
    Partition,
    ProducerIds,
    Quota,
    Record,
    Topic,
    TopicDeleted,
    User,
    check,
)
from ottla.metadata.store import Entry, Loaded, Snapshot
from ottla.metadata.topic_names import metric_name
from ottla.metadata.values import (
    AclBinding,
    BrokerState,
    QuotaEntity,
    ResourceKind,
    ScramCredential,
    ScramMechanism,
)
from ottla.protocol.primitives import Uuid

Key = TypeVar("Key")
Value = TypeVar("Value")

# One below the offset of the first entry.
NOTHING_APPLIED = -1

_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})
_STATE_ORDER = tuple(BrokerState)


class RuleBroken(Exception):
    """A record that breaks the rules of the image. Our own fault."""


class UserKey(NamedTuple):
    name: str
    mechanism: ScramMechanism


class ResourceKey(NamedTuple):
    kind: ResourceKind
    name: str


class _TopicState(NamedTuple):
    topic: Topic
    partitions: list[Partition]


class Image:
    """See the module. Mutable, with one owner; the results of look-ups must not be changed.

    Images with the same contents are equal, also at different offsets.
    """

    __slots__ = (
        "_acls",
        "_brokers",
        "_configs",
        "_deleted_names",
        "_features",
        "_metric_names",
        "_quotas",
        "_shared",
        "_topic_ids",
        "_topics",
        "_users",
        "controller_epoch",
        "controller_id",
        "epoch_floor",
        "next_producer_id",
        "offset",
        "partition_count",
    )

    def __init__(self) -> None:
        self.offset = NOTHING_APPLIED
        self.controller_epoch = 0
        # The controller's broker id; None while no controller has written its id.
        self.controller_id: int | None = None
        self.epoch_floor = 0
        self.next_producer_id = 0
        self._brokers: dict[int, Broker] = {}
        self._topics: dict[Uuid, _TopicState] = {}
        # The topics of a fork whose list of partitions still belongs to the image it came from.
        self._shared: set[Uuid] = set()
        self._topic_ids: dict[str, Uuid] = {}
        # Of all topics; counted here so that creating a topic does not iterate over the others.
        self.partition_count = 0
        self._metric_names: dict[str, tuple[str, ...]] = {}
        # Only names whose first epoch is above the floor.
        self._deleted_names: dict[str, int] = {}
        self._configs: dict[ResourceKey, dict[str, str]] = {}
        # A dict for its order: the order of a set differs from run to run.
        self._acls: dict[AclBinding, None] = {}
        self._users: dict[UserKey, ScramCredential] = {}
        self._quotas: dict[tuple[QuotaEntity, ...], dict[str, float]] = {}
        self._features: dict[str, int] = {}

    @classmethod
    def of(cls, loaded: Loaded) -> "Image":
        """The image of all metadata that a store has loaded."""
        image = cls()
        for record in loaded.snapshot.records:
            image.apply(record)
        image.offset = loaded.snapshot.offset
        for entry in loaded.entries:
            image.replay(entry)
        return image

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Image) and self._contents() == other._contents()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _contents(self) -> tuple[object, ...]:
        return tuple(
            getattr(self, name) for name in self.__slots__ if name not in ("offset", "_shared")
        )

    # Looking up

    @property
    def brokers(self) -> Mapping[int, Broker]:
        """The newest incarnation of every broker that ever registered, by id."""
        return self._brokers

    @property
    def topic_names(self) -> KeysView[str]:
        return self._topic_ids.keys()

    def topic(self, name: str) -> Topic | None:
        topic_id = self._topic_ids.get(name)
        return None if topic_id is None else self._topics[topic_id].topic

    def colliding_topic(self, name: str) -> str | None:
        """A topic of another name that has the same name in metrics."""
        alike = self._metric_names.get(metric_name(name), ())
        return next((other for other in alike if other != name), None)

    def topic_by_id(self, topic_id: Uuid) -> Topic | None:
        state = self._topics.get(topic_id)
        return None if state is None else state.topic

    def partitions(self, topic_id: Uuid) -> Sequence[Partition]:
        """All partitions of a topic by index; empty if the topic does not exist."""
        state = self._topics.get(topic_id)
        return () if state is None else state.partitions

    def has_partition(self, topic_name: str, index: int) -> bool:
        topic = self.topic(topic_name)
        return topic is not None and self.partition(topic.topic_id, index) is not None

    def leader_id(self, topic_name: str, index: int) -> int | None:
        """The broker that leads a partition; None without a leader or a partition."""
        partition = self._named_partition(topic_name, index)
        if partition is None or partition.leader is None:
            return None
        return partition.leader.broker_id

    def leader_epoch(self, topic_name: str, index: int) -> int | None:
        """The leader epoch of a partition; None without a partition."""
        partition = self._named_partition(topic_name, index)
        return None if partition is None else partition.leader_epoch

    def _named_partition(self, topic_name: str, index: int) -> Partition | None:
        topic = self.topic(topic_name)
        return None if topic is None else self.partition(topic.topic_id, index)

    def partition(self, topic_id: Uuid, index: int) -> Partition | None:
        partitions = self.partitions(topic_id)
        return partitions[index] if 0 <= index < len(partitions) else None

    @property
    def deleted_names(self) -> Mapping[str, int]:
        """The remembered names of deleted topics, with the first epochs of later topics."""
        return self._deleted_names

    def first_epoch(self, name: str) -> int:
        """The lowest leader epoch of a new partition of a topic of this name."""
        return max(self.epoch_floor, self._deleted_names.get(name, 0))

    def configs(self, kind: ResourceKind, name: str) -> Mapping[str, str]:
        """The configs of a resource, by key."""
        return self._configs.get(ResourceKey(kind, name), _NO_SETTINGS)

    @property
    def configured(self) -> KeysView[ResourceKey]:
        """The resources that have configs."""
        return self._configs.keys()

    @property
    def acls(self) -> Collection[AclBinding]:
        return self._acls.keys()

    @property
    def users(self) -> Mapping[UserKey, ScramCredential]:
        return self._users

    @property
    def quotas(self) -> Mapping[tuple[QuotaEntity, ...], Mapping[str, float]]:
        return self._quotas

    @property
    def features(self) -> Mapping[str, int]:
        return self._features

    # Replay

    def replay(self, entry: Entry) -> None:
        """Applies the next entry of the log. RuleBroken if it has another offset."""
        if entry.offset != self.offset + 1:
            raise RuleBroken(f"entry {entry.offset} cannot follow entry {self.offset}")
        for record in entry.records:
            self.apply(record)
        self.offset = entry.offset

    def fork(self) -> "Image":
        """A copy on which records can be tried. It is valid until this image changes.

        The partitions of a topic are copied when one of them first changes.
        """
        fork = copy.copy(self)
        for name in self.__slots__:
            owned = getattr(self, name)
            if isinstance(owned, dict):
                setattr(fork, name, owned.copy())
        fork._shared = set(self._topics)
        return fork

    def apply(self, record: Record) -> None:
        """Applies a record; the image changes in no other way.

        RuleBroken or InvalidRecord if it is refused: then nothing has changed.
        """
        check(record)
        match record:
            case Partition():
                self._apply_partition(record)
            case Topic():
                self._apply_topic(record)
            case TopicDeleted():
                self._apply_topic_deleted(record)
            case Broker():
                self._apply_broker(record)
            case Config():
                self._apply_config(record)
            case Acl():
                self._apply_acl(record)
            case User():
                _put(self._users, UserKey(record.name, record.mechanism), record.credential)
            case Quota():
                _put_inside(self._quotas, record.entity, record.key, record.value)
            case Feature():
                _put(self._features, record.name, record.level)
            case ProducerIds():
                _require_no_fall("the next producer id", self.next_producer_id, record.next_id)
                self.next_producer_id = record.next_id
            case EpochFloor():
                self._apply_epoch_floor(record.epoch)
            case DeletedName():
                self._apply_deleted_name(record)
            case ControllerStarted():
                _require_no_fall("the controller's epoch", self.controller_epoch, record.epoch)
                self.controller_epoch = record.epoch
                self.controller_id = record.broker_id
            case _:
                assert_never(record)

    def _apply_partition(self, partition: Partition) -> None:
        state = self._topics.get(partition.topic_id)
        if state is None:
            raise RuleBroken(f"partition {partition.index} of {partition.topic_id}, an unknown id")
        where = f"{state.topic.name}-{partition.index}"
        if partition.index < len(state.partitions):
            _check_successor(where, state.partitions[partition.index], partition)
            self._own_partitions(state)[partition.index] = partition
            return
        if partition.index > len(state.partitions):
            raise RuleBroken(f"{where}: index {len(state.partitions)} is to come first")
        first_epoch = self.first_epoch(state.topic.name)
        if partition.leader_epoch < first_epoch:
            raise RuleBroken(
                f"{where}: leader epoch {partition.leader_epoch} is below the first one of its"
                f" name, {first_epoch}"
            )
        self._own_partitions(state).append(partition)
        self.partition_count += 1

    def _own_partitions(self, state: _TopicState) -> list[Partition]:
        """The partitions of a topic, to be changed."""
        topic_id = state.topic.topic_id
        if topic_id not in self._shared:
            return state.partitions
        self._shared.discard(topic_id)
        own = state.partitions.copy()
        self._topics[topic_id] = _TopicState(state.topic, own)
        return own

    def _apply_topic(self, topic: Topic) -> None:
        if topic.name in self._topic_ids:
            raise RuleBroken(f"there is a topic {topic.name} already")
        if topic.topic_id in self._topics:
            raise RuleBroken(f"there is a topic with id {topic.topic_id} already")
        self._topics[topic.topic_id] = _TopicState(topic, [])
        self._topic_ids[topic.name] = topic.topic_id
        spelled = metric_name(topic.name)
        alike = (*self._metric_names.get(spelled, ()), topic.name)
        self._metric_names[spelled] = tuple(sorted(alike))

    def _apply_topic_deleted(self, deleted: TopicDeleted) -> None:
        state = self._topics.get(deleted.topic_id)
        if state is None or state.topic.name != deleted.name:
            raise RuleBroken(f"there is no topic {deleted.name} with id {deleted.topic_id}")
        first_epoch = self.first_epoch(deleted.name)
        for partition in state.partitions:
            if partition.leader_epoch >= first_epoch:
                raise RuleBroken(
                    f"{deleted.name} cannot go before the first epoch of its name, {first_epoch},"
                    f" is above leader epoch {partition.leader_epoch} of its partition"
                    f" {partition.index}"
                )
        del self._topics[deleted.topic_id]
        del self._topic_ids[deleted.name]
        self.partition_count -= len(state.partitions)
        spelled = metric_name(deleted.name)
        alike = tuple(name for name in self._metric_names[spelled] if name != deleted.name)
        _put(self._metric_names, spelled, alike or None)
        self._configs.pop(ResourceKey(ResourceKind.TOPIC, deleted.name), None)

    def _apply_epoch_floor(self, epoch: int) -> None:
        _require_no_fall("the epoch floor", self.epoch_floor, epoch)
        self.epoch_floor = epoch
        self._deleted_names = {
            name: first_epoch
            for name, first_epoch in self._deleted_names.items()
            if first_epoch > epoch
        }

    def _apply_deleted_name(self, deleted: DeletedName) -> None:
        first_epoch = self.first_epoch(deleted.name)
        _require_no_fall(f"the first epoch of {deleted.name[:40]!r}", first_epoch, deleted.epoch)
        if deleted.epoch > self.epoch_floor:
            self._deleted_names[deleted.name] = deleted.epoch

    def _apply_broker(self, broker: Broker) -> None:
        known = self._brokers.get(broker.broker_id)
        if known is not None:
            _require_no_fall(f"the epoch of broker {broker.broker_id}", known.epoch, broker.epoch)
            if broker.epoch == known.epoch:
                _check_same_incarnation(known, broker)
        self._brokers[broker.broker_id] = broker

    def _apply_config(self, config: Config) -> None:
        if config.kind is ResourceKind.TOPIC and config.name not in self._topic_ids:
            raise RuleBroken(f"a setting of {config.name[:40]!r}, a topic that is not there")
        _put_inside(self._configs, ResourceKey(config.kind, config.name), config.key, config.value)

    def _apply_acl(self, acl: Acl) -> None:
        if acl.in_force:
            self._acls[acl.binding] = None
        else:
            self._acls.pop(acl.binding, None)

    # Snapshots

    def snapshot(self) -> Snapshot:
        """Records of which an equal image can be built; equal images give equal records."""
        return Snapshot(self.offset, tuple(self._records()))

    def _records(self) -> Iterator[Record]:
        for name, level in sorted(self._features.items()):
            yield Feature(name, level)
        for _, broker in sorted(self._brokers.items()):
            yield broker
        for _, topic_id in sorted(self._topic_ids.items()):
            yield self._topics[topic_id].topic
            yield from self._topics[topic_id].partitions
        for (kind, resource), settings in sorted(self._configs.items()):
            for key, value in sorted(settings.items()):
                yield Config(kind, resource, key, value)
        yield from self._security_records()
        # After the partitions, most of which have lower epochs.
        if self.epoch_floor:
            yield EpochFloor(self.epoch_floor)
        for name, epoch in sorted(self._deleted_names.items()):
            yield DeletedName(name, epoch)
        if self.next_producer_id:
            yield ProducerIds(self.next_producer_id)
        if self.controller_epoch or self.controller_id is not None:
            yield ControllerStarted(self.controller_epoch, self.controller_id)

    def _security_records(self) -> Iterator[Record]:
        for binding in sorted(self._acls):
            yield Acl(binding, in_force=True)
        for (name, mechanism), credential in sorted(self._users.items(), key=lambda user: user[0]):
            yield User(name, mechanism, credential)
        for entity, quotas in sorted(self._quotas.items(), key=lambda item: _entity_order(item[0])):
            for key, value in sorted(quotas.items()):
                yield Quota(entity, key, value)


def _check_successor(where: str, before: Partition, after: Partition) -> None:
    if after.partition_epoch != before.partition_epoch + 1:
        raise RuleBroken(
            f"{where}: partition epoch {after.partition_epoch} cannot follow"
            f" {before.partition_epoch}"
        )
    expected = before.leader_epoch + (after.leader != before.leader)
    if after.leader_epoch == before.leader_epoch + 1 and not {*before.replicas} <= {
        *after.replicas
    }:
        # A replica went. Records of earlier versions kept the leader epoch then.
        expected = after.leader_epoch
    if after.leader_epoch != expected:
        raise RuleBroken(
            f"{where}: leader epoch {after.leader_epoch} where {expected} is due,"
            f" from {before.leader} to {after.leader}"
        )


def _check_same_incarnation(known: Broker, broker: Broker) -> None:
    is_same = broker.inherited_epochs == known.inherited_epochs
    is_over = not broker.inherited_epochs and broker.state is not BrokerState.STARTING
    if not (is_same or is_over):
        raise RuleBroken(f"{known.incarnation} inherits {known.inherited_epochs}, and that stays")
    if broker.incarnation_id != known.incarnation_id:
        raise RuleBroken(f"{known.incarnation} has the id {known.incarnation_id}, and that stays")
    if _STATE_ORDER.index(broker.state) < _STATE_ORDER.index(known.state):
        raise RuleBroken(f"{known.incarnation} is {known.state}, and not {broker.state} again")


def _require_no_fall(what: str, before: int, after: int) -> None:
    if after < before:
        raise RuleBroken(f"{what} cannot fall from {before} to {after}")


def _entity_order(entity: tuple[QuotaEntity, ...]) -> list[tuple[str, bool, str]]:
    return [(part.kind, part.name is not None, part.name or "") for part in entity]


def _put(known: dict[Key, Value], key: Key, value: Value | None) -> None:
    """Sets the value; None removes it."""
    if value is None:
        known.pop(key, None)
    else:
        known[key] = value


def _put_inside(
    known: dict[Key, dict[str, Value]], outer: Key, key: str, value: Value | None
) -> None:
    """The same one level deeper; empty inner dicts are removed.

    An inner dict is replaced, not changed: a fork may share it.
    """
    inner = known.get(outer, {}).copy()
    _put(inner, key, value)
    _put(known, outer, inner or None)
