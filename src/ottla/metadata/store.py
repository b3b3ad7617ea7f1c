"""The interface of a metadata store: an ordered log of entries, registered brokers, and the fence.

Offsets of entries have no gaps and are never reused. One contract test checks every store against
this interface.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ottla.errors import OttlaError
from ottla.metadata.records import Record
from ottla.metadata.values import (
    Endpoint,
    Incarnation,
    Int16,
    Int32,
    Name,
    PartitionId,
    Text,
)


class Fenced(OttlaError):
    """A newer controller may have been elected, and this fence is void. The holder must resign."""


class StoreClosed(OttlaError):
    """The store was closed before or during the call. An append may or may not be committed."""


class BrokerIdTaken(OttlaError):
    """Another broker is registered under this id, from `host`."""

    def __init__(self, broker_id: int, host: str) -> None:
        super().__init__(f"broker id {broker_id} is in use: a broker on {host} is registered")
        self.broker_id = broker_id
        self.host = host


class EntriesGone(OttlaError):
    """A snapshot has replaced the requested entries. The caller must load again."""

    def __init__(self, from_offset: int, first_offset: int) -> None:
        super().__init__(f"entry {from_offset} is gone, the first one left is {first_offset}")
        self.from_offset = from_offset
        self.first_offset = first_offset


class Entry(NamedTuple):
    """Records that were committed atomically, at an offset of the log."""

    offset: int
    records: tuple[Record, ...]


class Snapshot(NamedTuple):
    """Records that replace all entries up to and including `offset`."""

    offset: int
    records: tuple[Record, ...]


class Loaded(NamedTuple):
    """All metadata: the newest snapshot, and the entries after it.

    Without a saved snapshot it is an empty one, with the offset before the first entry.
    """

    snapshot: Snapshot
    entries: tuple[Entry, ...]

    @property
    def next_offset(self) -> int:
        """The offset from which to follow."""
        return self.snapshot.offset + 1 + len(self.entries)


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to append until the next fence is given: the controller epoch, which only rises."""

    epoch: int


class SupportedFeature(NamedTuple):
    """The levels of a feature that a broker supports."""

    name: Name
    level_min: Int16
    level_max: Int16


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The registration of one incarnation of a broker.

    `inherits` are the ids of earlier incarnations whose memberships of ISRs it may take over, since
    their logs are intact except for those of the `damaged` partitions. The logs of the `offline`
    partitions cannot be read or written. `replaces` are the ids of
    incarnations that used the same data directory: one of them, left by a killed process, may still
    be registered.
    """

    broker_id: Int32
    incarnation_id: Name
    endpoints: tuple[Endpoint, ...]
    rack: Text | None
    host: Text
    features: tuple[SupportedFeature, ...] = ()
    inherits: tuple[Name, ...] = ()
    damaged: tuple[PartitionId, ...] = ()
    offline: tuple[PartitionId, ...] = ()
    replaces: tuple[Text, ...] = ()
    is_draining: bool = False

    def may_replace(self, other: "Registration") -> bool:
        """Whether `other` is of the same data directory."""
        return other.incarnation_id == self.incarnation_id or other.incarnation_id in self.replaces


class RegisteredBroker(NamedTuple):
    """A registered broker with its broker epoch."""

    registration: Registration
    broker_epoch: int

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.registration.broker_id, self.broker_epoch)


class MetadataStore(Protocol):
    """One broker's access to the metadata.

    Any call raises StoreClosed once the store is closed, and a StorageError or OSError if its disk
    fails. After a StorageError only a newly opened store knows which entries are committed. A store
    that cannot reach its servers waits for them: no call fails for that reason.
    """

    @property
    def session_timeout_ms(self) -> int | None:
        """How long a session outlives its last contact; None if it does not end by time."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether its servers were there at the last contact; True if it has none."""
        ...

    @property
    def known_head(self) -> int | None:
        """The offset of the last entry that `follow` knows of; None before it knows any."""
        ...

    async def cluster_id(self, proposed: str) -> str:
        """The id of the cluster that the store belongs to.

        The first proposal becomes the id, durably. An embedded store returns the proposal: the
        cluster id of a single broker is in its log directories.
        """
        ...

    async def load(self) -> Loaded:
        """All metadata that was committed before the call. `follow` has the entries after it."""
        ...

    async def append(self, records: Sequence[Record], fence: Fence) -> int:
        """Commits one entry, durably, and returns its offset.

        Calls may overlap; their entries are in the order of the calls. A cancelled caller does not
        stop its write. EntryTooLarge and OSError mean that nothing was written.

        A store that lost its connection during the write looks for the entry afterwards, and writes
        it again if it is absent. Fenced means that nothing was written, with one exception: if a
        later controller has already replaced that offset by a snapshot, the outcome of such a write
        is unknown.
        """
        ...

    async def save(self, snapshot: Snapshot, fence: Fence) -> None:
        """Replaces all entries up to and including the snapshot's offset, durably.

        Followers may still get some of these entries, until the next snapshot.
        ValueError unless its entries are committed and it is not older than the last snapshot. Each
        write is fenced like an append. After Fenced it is saved as a whole or not at all.
        """
        ...

    def follow(self, from_offset: int) -> AsyncIterator[Entry]:
        """Every entry from `from_offset` on, once, in order, as they are committed; never ends.

        EntriesGone if a snapshot has replaced the next entry.
        """
        ...

    async def register(self, registration: Registration) -> int:
        """Registers this broker and returns its broker epoch, higher than all before.

        The registration lasts until its session ends or until it registers again. BrokerIdTaken if
        the id is registered by another session, unless `may_replace` allows it. Then that session
        is no longer the controller either.
        """
        ...

    async def drain(self) -> None:
        """Marks this broker's registration as draining. Without a registration it has no effect."""
        ...

    async def until_unregistered(self) -> None:
        """Returns when this broker's registration has ended: its session has expired.

        The broker must register again; it inherits from itself. Returns at once if it is not
        registered.
        """
        ...

    def registered_brokers(self) -> AsyncIterator[tuple[RegisteredBroker, ...]]:
        """The registered brokers by id, now and after every change; it does not end.

        A slow consumer gets only the newest state. For the controller: a store watches the
        registrations only while somebody iterates.
        """
        ...

    async def campaign(self) -> Fence:
        """Waits while another live session is the controller, until this broker is.

        Every earlier fence is void from then on.
        """
        ...

    def log_directory_failed(self, path: str, error: Exception) -> None:
        """A log directory of this broker went offline. A store in it stops writing."""
        ...

    async def close(self) -> None:
        """Ends the session, its registration included, and all waiting calls. Idempotent."""
        ...
