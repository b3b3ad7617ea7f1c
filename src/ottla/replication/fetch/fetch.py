"""One fetch: partitions read in turn within the limits of a reply, and again once there is more."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from ottla.errors import PeerError
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.fetch import Partition as AskedPartition
from ottla.replication.fetch.cold_reads import ColdPiece, ColdReads
from ottla.replication.fetch.reads import ReadResult, read
from ottla.replication.lookup import TopicKey
from ottla.replication.purgatory import Waiter
from ottla.replication.replica import Replica
from ottla.storage.log.cold_read import COLD_READS_MAX, ColdRead
from ottla.storage.log.log import Log

Find = Callable[[TopicKey, int], Replica]

NO_SESSION = 0
NO_TRIES: "Mapping[FetchItem, int]" = MappingProxyType({})


class FetchItem:
    """One partition that is asked for."""

    __slots__ = ("asked", "replica", "topic")

    def __init__(self, topic: TopicKey, asked: AskedPartition) -> None:
        self.topic = topic
        self.asked = asked
        # Where it was found when it was last read.
        self.replica: Replica | None = None

    def attach(self, replica: Replica | None) -> None:
        self.replica = replica


class ItemRead(NamedTuple):
    """What a partition gave, or why it gave nothing."""

    item: FetchItem
    outcome: ReadResult | PeerError


class ColdItem(NamedTuple):
    """A partition that cannot be read before a piece of its log is in memory."""

    item: FetchItem
    piece: ColdPiece


class Reading(NamedTuple):
    """What all partitions gave together. What is urgent is answered without more bytes."""

    reads: list[ItemRead]
    size: int
    is_urgent: bool
    # If there are any it is no answer: all has to be read again once these are in memory.
    cold: list[ColdItem]


# Begins a session of the partitions that are answered; its id, or NO_SESSION.
Begin = Callable[[list[ItemRead]], int]


class FetchLimits(NamedTuple):
    """What the request allows, and what it would wait for."""

    bytes_min: int
    bytes_max: int
    isolation: Isolation


class Answer(NamedTuple):
    """Of which session the reply is, and what it tells."""

    session_id: int
    reads: list[ItemRead]


class Context(Protocol):
    """Which partitions a request is about, by itself or by its session."""

    @property
    def is_empty(self) -> bool:
        """There is nothing to wait for."""
        ...

    def items(self) -> Iterable[FetchItem]:
        """Those that may have something to tell."""
        ...

    def enter(self, waiter: Waiter) -> None:
        """Has the waiter woken by any of the partitions. May be repeated."""
        ...

    def leave(self, waiter: Waiter) -> None: ...

    def settle(self, reading: Reading) -> None:
        """Those that had nothing to tell need not be read again before they change."""
        ...

    def answer(self, reading: Reading) -> Answer:
        """What the reply says: the last thing that is asked."""
        ...


class FullFetch:
    """All partitions are named in the request; perhaps a session begins with its reply."""

    __slots__ = ("_begin", "_items")

    def __init__(self, items: list[FetchItem], begin: Begin | None) -> None:
        self._items = items
        self._begin = begin

    @property
    def is_empty(self) -> bool:
        return not self._items

    def items(self) -> Iterable[FetchItem]:
        return self._items

    def enter(self, waiter: Waiter) -> None:
        for item in self._items:
            if item.replica is not None:
                item.replica.waiting.enter(waiter)

    def leave(self, waiter: Waiter) -> None:
        for item in self._items:
            if item.replica is not None:
                item.replica.waiting.leave(waiter)

    def settle(self, reading: Reading) -> None:
        """All are read each time."""

    def answer(self, reading: Reading) -> Answer:
        session_id = NO_SESSION if self._begin is None else self._begin(reading.reads)
        return Answer(session_id, reading.reads)


class Fetch:
    """`read` once, `read_cold` if something was cold, and if it is not enough, `read_later`."""

    __slots__ = ("_cold_reads", "_context", "_find", "_limits", "_tries")

    def __init__(
        self, context: Context, limits: FetchLimits, find: Find, cold_reads: ColdReads
    ) -> None:
        self._context = context
        self._limits = limits
        self._find = find
        self._cold_reads = cold_reads
        # How often each partition was cold.
        self._tries: dict[FetchItem, int] = {}

    def read(self) -> Reading:
        reading = read_items(self._context.items(), self._limits, self._find, self._tries)
        self._context.settle(reading)
        return reading

    async def read_cold(self, reading: Reading) -> Reading:
        """Has read in a thread what was cold, and reads all again: logs change meanwhile.

        Nothing comes between the look that it returns and its return.
        """
        while reading.cold:
            for item, _ in reading.cold:
                self._tries[item] = self._tries.get(item, 0) + 1
            await self._cold_reads.warm([piece for _, piece in reading.cold])
            reading = self.read()
        return reading

    def is_enough(self, reading: Reading) -> bool:
        return reading.size >= self._limits.bytes_min or reading.is_urgent or self._context.is_empty

    def read_later(self, wait_ms: int, reading: Reading) -> Coroutine[Any, Any, Reading]:
        """Waits until there is enough, or its time is over; what there is then.

        `reading` was the last look, and was not enough: whatever changes from now on counts, also
        before the wait begins. So it must be awaited, or what waits is never let go of.
        """
        waiter = Waiter(wait_ms)
        self._park(waiter, reading)
        return self._wait(waiter)

    def _park(self, waiter: Waiter, reading: Reading) -> None:
        self._context.enter(waiter)
        waiter.expect(self._limits.bytes_min - reading.size)

    async def _wait(self, waiter: Waiter) -> Reading:
        try:
            while True:
                await waiter.wait()
                reading = await self.read_cold(self.read())
                if self.is_enough(reading) or waiter.is_over:
                    return reading
                # Nothing comes between this look and the next wait.
                self._park(waiter, reading)
        finally:
            self._context.leave(waiter)
            waiter.close()


def read_items(
    items: Iterable[FetchItem],
    limits: FetchLimits,
    find: Find,
    tries: Mapping[FetchItem, int] = NO_TRIES,
) -> Reading:
    """Reads partitions in turn until the reply is full; those behind tell only how far they are.

    The first that has something gives at least one batch, however large: a reader must get on.
    A partition that was cold too often waits for the disk, by its number of `tries`.
    """
    reads: list[ItemRead] = []
    cold_items: list[ColdItem] = []
    bytes_left, is_first, is_urgent = limits.bytes_max, True, False
    for item in items:
        asked = item.asked
        try:
            replica = _locate(item, find)
            result = read(
                replica,
                asked.fetch_offset,
                bytes_max=max(0, min(asked.partition_max_bytes, bytes_left)),
                isolation=limits.isolation,
                is_first=is_first,
                current_leader_epoch=asked.current_leader_epoch,
                last_fetched_epoch=asked.last_fetched_epoch,
                warm_only=not tries or tries.get(item, 0) < COLD_READS_MAX,
            )
        except ColdRead as cold:
            needed = cold.needed.after(tries.get(item, 0))
            cold_items.append(ColdItem(item, ColdPiece(_log_of(item), needed)))
            # As if it gave all that it may: what would not fit behind it need not be warm.
            bytes_left -= max(0, min(asked.partition_max_bytes, bytes_left))
            is_first = False
            continue
        except PeerError as error:
            reads.append(ItemRead(item, error))
            is_urgent = True
            continue
        reads.append(ItemRead(item, result))
        if result.records is not None:
            bytes_left -= result.records.size
            is_first = False
        elif result.diverging is not None:
            is_urgent = True
    return Reading(reads, limits.bytes_max - bytes_left, is_urgent, cold_items)


def _log_of(item: FetchItem) -> Log:
    if item.replica is None or item.replica.log is None:
        raise TypeError(f"{item.topic!r} has no log that could be cold")
    return item.replica.log


def _locate(item: FetchItem, find: Find) -> Replica:
    """Where the partition is now: a topic may have been deleted, and another be named like it."""
    try:
        replica = find(item.topic, item.asked.partition)
    except PeerError:
        item.attach(None)
        raise
    if replica is not item.replica:
        item.attach(replica)
    return replica
