"""The seam to where metadata lives: one ordered log of entries, who is there, and who may write.

Entries are numbered without gaps, and a number is given once. One contract test holds every store
to what is promised here.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ottla.errors import OttlaError
from ottla.metadata.records import Record
from ottla.metadata.values import Endpoint, Incarnation


class Fenced(OttlaError):
    """A newer controller may have been elected: this fence opens nothing any more. Resign."""


class StoreClosed(OttlaError):
    """The store was closed, before the call or during it. It says nothing about an append's end."""


class EntriesGone(OttlaError):
    """Entries were asked for that a snapshot has replaced. Load again."""

    def __init__(self, from_n: int, first_n: int) -> None:
        super().__init__(f"entry {from_n} is gone, the first one left is {first_n}")
        self.from_n = from_n
        self.first_n = first_n


class Entry(NamedTuple):
    """Records that were committed together, all or none, as number `n` of the log."""

    n: int
    records: tuple[Record, ...]


class Snapshot(NamedTuple):
    """Records that say the same as all entries up to and including `n`."""

    n: int
    records: tuple[Record, ...]


class Loaded(NamedTuple):
    """All there is: the newest snapshot, and the entries from the one after it on.

    Before the first snapshot was saved it is an empty one, numbered before the first entry.
    """

    snapshot: Snapshot
    entries: tuple[Entry, ...]

    @property
    def next_n(self) -> int:
        """The number from which to follow."""
        return self.snapshot.n + 1 + len(self.entries)


@dataclass(frozen=True, slots=True)
class Fence:
    """The right to append, until the next one is given: the controller's epoch, ever growing."""

    epoch: int


class SupportedFeature(NamedTuple):
    """The levels of a feature that a broker can keep to."""

    name: str
    level_min: int
    level_max: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker says of itself when it comes.

    `inherits` is the epoch of its last incarnation, if that one left its disks intact.
    """

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None
    host: str
    features: tuple[SupportedFeature, ...] = ()
    inherits: int | None = None
    # Epochs since then under which it never served.
    unserved: tuple[int, ...] = ()

    @property
    def inherited_epochs(self) -> frozenset[int]:
        """The epochs whose memberships it may claim, each of them exactly."""
        return frozenset() if self.inherits is None else frozenset((self.inherits, *self.unserved))


class Member(NamedTuple):
    """A broker that is there, and the epoch that its registration got."""

    registration: Registration
    broker_epoch: int

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.registration.broker_id, self.broker_epoch)


@dataclass(frozen=True, slots=True)
class Lease:
    """Until when, on the steady clock, nobody else can have been told that this broker is gone."""

    valid_until_ns: int

    def is_valid(self, now_ns: int) -> bool:
        return now_ns < self.valid_until_ns


class MetadataStore(Protocol):
    """One broker's door to the metadata.

    Any call raises StoreClosed once the store is closed, and a StorageError or OSError if the disk
    below it fails. After a StorageError only a store opened anew knows what was committed.
    """

    async def load(self) -> Loaded:
        """All that is committed. It may grow at any time: `follow` tells what comes next."""
        ...

    async def append(self, records: Sequence[Record], fence: Fence) -> int:
        """Commits one entry, durably, and returns its number.

        Calls may overlap; their entries are in the order of the calls. Fenced, EntryTooLarge and
        OSError mean that nothing was written. An outcome that is not known is never an error: a
        store that lost its connection waits until it can look whether its entry is there.
        """
        ...

    async def save(self, snapshot: Snapshot, fence: Fence) -> None:
        """Replaces every entry up to and including the snapshot's by the snapshot, durably.

        ValueError unless it was folded from committed entries and is not older than the last one.
        """
        ...

    def follow(self, from_n: int) -> AsyncIterator[Entry]:
        """Every committed entry from `from_n` on, once, in order, as they come; it does not end.

        EntriesGone when it meets entries that a snapshot has replaced.
        """
        ...

    async def register(self, registration: Registration) -> int:
        """Makes this broker a member; its broker epoch, larger than any that was given before.

        It stays one while its session lasts, or until it registers anew.
        """
        ...

    def members(self) -> AsyncIterator[tuple[Member, ...]]:
        """Who is there now, by id, then again after every change; it does not end.

        Whoever is slow to ask for the next one misses what was overtaken meanwhile.
        """
        ...

    async def campaign(self) -> Fence:
        """Waits until this broker is the controller. Every fence given before is void from then."""
        ...

    def session(self) -> Lease:
        """How long what this broker knows of itself is good. Cheap: ask for every request."""
        ...

    def log_directory_failed(self, path: str, error: Exception) -> None:
        """A log directory of this broker went offline. A store that writes to it writes no more."""
        ...

    async def close(self) -> None:
        """Ends the session and whatever waits here. Idempotent."""
        ...
