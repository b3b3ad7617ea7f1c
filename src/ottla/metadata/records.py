"""The records of the metadata log, which of them can be, and their form on disk and in ZooKeeper.

Every record holds the full value of what it is about, so that the last one of its kind and name
says all. An entry of the log is some records that were decided together: one JSON document,

    {"format":1,"records":[{"type":"EpochFloor","epoch":7}]}

read by nobody but us, and readable by anybody in a dump.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, get_args

from ottla.errors import OttlaError, StorageError
from ottla.metadata.json_codec import ADDED_LATER, Misfit, dump, object_form, parse
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
    QuotaEntity,
    ResourceKind,
    ScramCredential,
    ScramMechanism,
    Text,
)
from ottla.protocol.primitives import ZERO_UUID, Uuid

ENTRY_BYTES_MAX = 512 << 10
FORMAT = 1


class EntryTooLarge(OttlaError):
    """More records than one entry may hold; nothing was written."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"an entry of {size_bytes} bytes where {ENTRY_BYTES_MAX} are allowed")
        self.size_bytes = size_bytes


class CorruptEntry(StorageError):
    """Bytes that are no entry of ours: `where` in the document, and `reason`."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.where = where
        self.reason = reason


class InvalidRecord(ValueError):
    """A record that contradicts itself. Whoever made it is at fault, and that is us."""


# Their names and the names of their fields are the form on disk: changing one is a new format. A
# new field is `ADDED_LATER`, with a default for the records from before.


@dataclass(frozen=True, slots=True)
class ControllerStarted:
    """From here on nothing of an older controller can follow.

    `broker_id` is the controller; None in records that were written before it was told.
    """

    epoch: Int32
    broker_id: Int32 | None = field(default=None, metadata=ADDED_LATER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """The newest incarnation of a broker.

    `inherits` is the epoch of the incarnation before it, if that one left its disks intact.
    """

    broker_id: Int32
    epoch: Int64
    inherits: Int64 | None
    endpoints: tuple[Endpoint, ...]
    rack: Name | None
    host: Name
    state: BrokerState

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.broker_id, self.epoch)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic is there; its `Partition` records follow. Its name says whether it is internal."""

    name: Name
    topic_id: Uuid


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    """A topic, its partitions and its settings are no more."""

    topic_id: Uuid
    name: Name


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """Who has a partition, and who leads it.

    `isr` and `elr` (the eligible leaders outside of it) name incarnations; `unclean` names the
    replicas that came back without knowing what they had lost. `leader` is None while nobody leads.
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


@dataclass(frozen=True, slots=True)
class Config:
    """One setting of a resource; None takes it back."""

    kind: ResourceKind
    name: Text
    key: Name
    value: Text | None


@dataclass(frozen=True, slots=True)
class Acl:
    """A binding is in force, or no more."""

    binding: AclBinding
    in_force: bool


@dataclass(frozen=True, slots=True)
class User:
    """A user's credential for one mechanism; None takes it back."""

    name: Name
    mechanism: ScramMechanism
    credential: ScramCredential | None


@dataclass(frozen=True, slots=True)
class Quota:
    """One quota of an entity, by Kafka's key (`producer_byte_rate`); None takes it back."""

    entity: tuple[QuotaEntity, ...]
    key: Name
    value: float | None


@dataclass(frozen=True, slots=True)
class ProducerIds:
    """Every producer id below `next_id` may be in use."""

    next_id: Int64


@dataclass(frozen=True, slots=True)
class Feature:
    """The level of a feature that every broker keeps to; 0 is without it."""

    name: Name
    level: Int16


@dataclass(frozen=True, slots=True)
class EpochFloor:
    """New partitions start with this leader epoch or a later one, whatever their topic's name.

    Deleted names that need no later epoch than this one are no longer remembered.
    """

    epoch: Int32


@dataclass(frozen=True, slots=True)
class DeletedName:
    """A topic of this name was deleted: new partitions of the name start with this leader epoch
    or a later one.
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


# --- which records can be ---------------------------------------------------------------------


def check(record: Record) -> None:
    """InvalidRecord if the record contradicts itself, whatever the others say."""
    if isinstance(record, Partition):
        _check_partition(record)
    elif isinstance(record, Broker):
        _require_distinct("listeners", [endpoint.listener for endpoint in record.endpoints])
    elif isinstance(record, Topic):
        _check_topic(record)
    elif isinstance(record, Quota):
        _check_quota(record)


def _check_partition(partition: Partition) -> None:
    if not partition.replicas:
        raise InvalidRecord("a partition without replicas")
    _require_distinct("replicas", partition.replicas)
    _require_distinct("adding and removing", partition.adding + partition.removing)
    members = [member.broker_id for member in partition.isr + partition.elr]
    _require_distinct("isr, elr and unclean", [*members, *partition.unclean])
    named = {*members, *partition.unclean, *partition.adding, *partition.removing}
    strangers = named.difference(partition.replicas)
    if strangers:
        raise InvalidRecord(f"broker {min(strangers)} is none of the replicas")
    if partition.leader is not None and partition.leader not in partition.isr:
        raise InvalidRecord(f"the leader, {partition.leader}, is not in the isr")


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
    # One order, so that one entity has one name.
    if kinds != sorted(set(kinds)):
        raise InvalidRecord("the parts of a quota's entity are not in order")


def _require_distinct(what: str, items: Sequence[Any]) -> None:
    if len(items) > 1 and len(set(items)) != len(items):
        raise InvalidRecord(f"{what} name one twice")


# --- entries as bytes -------------------------------------------------------------------------

_FORMS = {kind.__name__: object_form(kind) for kind in get_args(Record)}
_EMPTY_BYTES = len(b'{"format":%d,"records":[]}' % FORMAT)


def encode(records: Iterable[Record]) -> bytes:
    """One entry. EntryTooLarge beyond 512 KiB; InvalidRecord for what `decode` would refuse."""
    entry = _document_of([dump(_write(record)) for record in records])
    if len(entry) > ENTRY_BYTES_MAX:
        raise EntryTooLarge(len(entry))
    return entry


class EntryPacker:
    """Puts records into as many entries as it takes, each as full as it may be: for a snapshot."""

    def __init__(self) -> None:
        self._full: list[bytes] = []
        self._pieces: list[bytes] = []
        self._size_bytes = _EMPTY_BYTES

    def add(self, record: Record) -> None:
        """InvalidRecord or EntryTooLarge, and it was not added."""
        piece = dump(_write(record))
        # With the comma before it.
        piece_bytes = len(piece) + 1
        if _EMPTY_BYTES + piece_bytes > ENTRY_BYTES_MAX:
            raise EntryTooLarge(_EMPTY_BYTES + piece_bytes)
        if self._size_bytes + piece_bytes > ENTRY_BYTES_MAX:
            self._full.append(_document_of(self._pieces))
            self._pieces, self._size_bytes = [], _EMPTY_BYTES
        self._pieces.append(piece)
        self._size_bytes += piece_bytes

    def entries(self) -> list[bytes]:
        return [*self._full, _document_of(self._pieces)] if self._pieces else list(self._full)


def decode(entry: bytes) -> tuple[Record, ...]:
    """The records of an entry. CorruptEntry for anything that `encode` cannot have written."""
    if len(entry) > ENTRY_BYTES_MAX:
        raise CorruptEntry("", f"{len(entry)} bytes, {ENTRY_BYTES_MAX} are allowed")
    try:
        return tuple(map(_read_at, count(), _records_of(parse(entry))))
    except Misfit as misfit:
        raise CorruptEntry(misfit.where, misfit.reason) from None


def _document_of(pieces: Iterable[bytes]) -> bytes:
    return b'{"format":%d,"records":[%b]}' % (FORMAT, b",".join(pieces))


def _records_of(document: Any) -> list[Any]:
    if type(document) is not dict or document.get("format") is None:
        raise Misfit("an object with its format expected")
    if type(document["format"]) is not int or document["format"] != FORMAT:
        raise Misfit(f"format {str(document['format'])[:40]}, only {FORMAT} is known")
    if document.keys() != {"format", "records"} or type(document["records"]) is not list:
        raise Misfit("a list of records expected, and nothing else")
    records: list[Any] = document["records"]
    return records


def _read_at(index: int, document: Any) -> Record:
    try:
        return _read(document)
    except Misfit as misfit:
        raise misfit.inside(f"records[{index}]") from None


def _write(record: Record) -> dict[str, Any]:
    check(record)
    name = type(record).__name__
    try:
        return {"type": name, **_FORMS[name].write(record)}
    except Misfit as misfit:
        raise InvalidRecord(f"{name}.{misfit}") from None


def _read(document: Any) -> Record:
    if type(document) is not dict:
        raise Misfit("a record expected")
    name = document.pop("type", None)
    if type(name) is not str or name not in _FORMS:
        raise Misfit(f"a record of type {str(name)[:40]!r} is not known")
    try:
        record: Record = _FORMS[name].read(document)
        check(record)
    except InvalidRecord as error:
        raise Misfit(str(error)).inside(name) from None
    except Misfit as misfit:
        raise misfit.inside(name) from None
    return record
