"""One fetch request: reads its partitions in turn, within the limits, and parks if too little."""

from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from ottla.errors import PeerError
from ottla.metadata.values import Incarnation
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.primitives import NO_BROKER
from ottla.replication.fetch.cold_reads import ColdPiece, ColdReads
from ottla.replication.fetch.reads import ReadResult, read, read_for_follower, redirect
from ottla.replication.fetch.replica_selection import ReplicaSelection
from ottla.replication.lookup import TopicKey
from ottla.replication.purgatory import Waiter, WaitingRoom, Watcher
from ottla.replication.replica import Replica
from ottla.replication.throttle import ReplicationThrottle
from ottla.storage.log.cold_read import COLD_READS_MAX, ColdRead
from ottla.storage.log.log import Log
from ottla.tuples import maker

Find = Callable[[TopicKey, int], Replica]

NO_SESSION = 0
# The partitions in an answer to a follower that is given at once.
URGENT_READS_MAX = 200


class AskedPartition(Protocol):
    """A partition as a request names it."""

    @property
    def partition(self) -> int: ...

    @property
    def current_leader_epoch(self) -> int: ...

    @property
    def fetch_offset(self) -> int: ...

    @property
    def last_fetched_epoch(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def partition_max_bytes(self) -> int: ...


NO_TRIES: "Mapping[FetchItem, int]" = MappingProxyType({})


class FetchItem:
    """One partition of a request."""

    __slots__ = ("asked", "replica", "topic")

    def __init__(self, topic: TopicKey, asked: AskedPartition) -> None:
        self.topic = topic
        self.asked = asked
        # The replica of the last read.
        self.replica: Replica | None = None

    def attach(self, replica: Replica | None) -> None:
        self.replica = replica


class ItemRead(NamedTuple):
    """The result or the error of one partition."""

    item: FetchItem
    outcome: ReadResult | PeerError


class ColdItem(NamedTuple):
    """A partition that cannot be read before a piece of its log is in the page cache."""

    item: FetchItem
    piece: ColdPiece


class Reading(NamedTuple):
    """The results of all partitions. An urgent one is answered without waiting for bytes."""

    reads: list[ItemRead]
    size: int
    is_urgent: bool
    # If not empty, all partitions are read again once these pieces are in the page cache.
    cold: list[ColdItem]


# Begins a session with the answered partitions and returns its id, or NO_SESSION.
Begin = Callable[[list[ItemRead]], int]


class FetchLimits(NamedTuple):
    """The limits of a request: fetch.min.bytes, fetch.max.bytes, and what its reader may read."""

    bytes_min: int
    bytes_max: int
    isolation: Isolation
    # The follower that fetches, which reads to the log end; None for a consumer.
    follower: Incarnation | None = None
    # Limits what followers that are not in sync get.
    throttle: ReplicationThrottle | None = None
    # Sends a consumer to a closer replica; None: this broker serves it.
    selection: ReplicaSelection | None = None
    # Whether consumers are served from replicas that this broker does not lead.
    may_follow: bool = False


class Answer(NamedTuple):
    """The session id of a reply, and the partitions in it."""

    session_id: int
    reads: list[ItemRead]


class Context(Protocol):
    """The partitions of a request: named in it, or kept in its session."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no partition to wait for."""
        ...

    def items(self) -> Iterable[FetchItem]:
        """The partitions that may have records or news."""
        ...

    def enter(self, waiter: Watcher) -> None:
        """Has any of the partitions wake the waiter. May be repeated."""
        ...

    def leave(self, waiter: Watcher) -> None: ...

    def settle(self, reading: Reading) -> None:
        """Partitions without news need not be read again before they change."""
        ...

    def answer(self, reading: Reading) -> Answer:
        """The content of the reply. Called last."""
        ...


_make_read = maker(ItemRead)
_make_reading = maker(Reading)


class FullFetch:
    """A full fetch: the request names all partitions. Its reply may begin a session."""

    __slots__ = ("_begin", "_is_committed_only", "_is_follower", "_items")

    def __init__(
        self,
        items: list[FetchItem],
        begin: Begin | None,
        isolation: Isolation,
        *,
        is_follower: bool = False,
    ) -> None:
        self._items = items
        self._begin = begin
        self._is_committed_only = isolation is Isolation.READ_COMMITTED
        self._is_follower = is_follower

    @property
    def is_empty(self) -> bool:
        return not self._items

    def items(self) -> Iterable[FetchItem]:
        return self._items

    def enter(self, waiter: Watcher) -> None:
        for item in self._items:
            if item.replica is not None:
                room = waiting_room(item.replica, is_follower=self._is_follower)
                room.enter(waiter, is_committed_only=self._is_committed_only)

    def leave(self, waiter: Watcher) -> None:
        for item in self._items:
            if item.replica is not None:
                waiting_room(item.replica, is_follower=self._is_follower).leave(waiter)

    def settle(self, reading: Reading) -> None:
        """Does nothing: a full fetch reads all partitions each time."""

    def answer(self, reading: Reading) -> Answer:
        session_id = NO_SESSION if self._begin is None else self._begin(reading.reads)
        return Answer(session_id, reading.reads)


def waiting_room(replica: Replica, *, is_follower: bool) -> WaitingRoom:
    """Where a fetch waits: a follower for appends, a consumer for the high watermark."""
    return replica.waiting_followers if is_follower else replica.waiting


class Parked(Watcher, Protocol):
    """What waits for a fetch that lacks bytes."""

    def expect(self, missing: int) -> None:
        """From now on `missing` bytes are missing."""
        ...


class Fetch:
    """Call `read`, then `read_cold` if a partition was cold, then `read_later` if not enough."""

    __slots__ = ("_cold_reads", "_context", "_find", "_limits", "_tries")

    def __init__(
        self, context: Context, limits: FetchLimits, find: Find, cold_reads: ColdReads
    ) -> None:
        self._context = context
        self._limits = limits
        self._find = find
        self._cold_reads = cold_reads
        # The number of times that each partition was cold.
        self._tries: dict[FetchItem, int] = {}

    @property
    def follower(self) -> Incarnation | None:
        return self._limits.follower

    def read(self) -> Reading:
        reading = read_items(self._context.items(), self._limits, self._find, self._tries)
        self._context.settle(reading)
        return reading

    async def read_cold(self, reading: Reading) -> Reading:
        """Warms cold pieces in a thread, then reads all partitions again: logs may have changed.

        No other task runs between the last read and the return.
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
        """Waits until there is enough or the time is over, and reads again.

        `reading` was the last result, and was not enough. Every change from now on counts, even
        before the wait begins. The coroutine must be awaited, or the waiter stays parked for ever.
        """
        waiter = Waiter(wait_ms)
        self.park(waiter, reading)
        return self._wait(waiter)

    def park(self, waiter: Parked, reading: Reading) -> None:
        """Has the waiter woken by the bytes that `reading`, the last result, lacks."""
        self._context.enter(waiter)
        waiter.expect(self._limits.bytes_min - reading.size)

    async def _wait(self, waiter: Waiter) -> Reading:
        try:
            while True:
                await waiter.wait()
                reading = await self.read_cold(self.read())
                if self.is_enough(reading) or waiter.is_over:
                    return reading
                # No other task runs between this read and the next wait.
                self.park(waiter, reading)
        finally:
            self._context.leave(waiter)
            waiter.close()


def read_items(
    items: Iterable[FetchItem],
    limits: FetchLimits,
    find: Find,
    tries: Mapping[FetchItem, int] = NO_TRIES,
) -> Reading:
    """Reads partitions in turn until the reply is full. The rest report only their offsets.

    The first partition with records gives at least one batch, however large, so that a consumer
    makes progress. A partition that was cold COLD_READS_MAX times waits for the disk (`tries`).
    """
    reads: list[ItemRead] = []
    cold_items: list[ColdItem] = []
    bytes_left, is_first, is_urgent = limits.bytes_max, True, False
    for item in items:
        if is_urgent and limits.follower is not None and len(reads) >= URGENT_READS_MAX:
            # After an election thousands of partitions have an error. The next fetch has the rest.
            break
        asked = item.asked
        try:
            replica = _locate(item, find)
            bytes_max = max(0, min(asked.partition_max_bytes, bytes_left))
            warm_only = not tries or tries.get(item, 0) < COLD_READS_MAX
            closer_id = None
            if limits.selection is not None:
                closer_id = limits.selection.select(replica.partition, asked.fetch_offset)
            if closer_id is not None:
                result = redirect(replica, closer_id, asked.current_leader_epoch)
            elif limits.follower is None:
                result = read(
                    replica,
                    asked.fetch_offset,
                    bytes_max=bytes_max,
                    isolation=limits.isolation,
                    is_first=is_first,
                    current_leader_epoch=asked.current_leader_epoch,
                    last_fetched_epoch=asked.last_fetched_epoch,
                    warm_only=warm_only,
                    may_follow=limits.may_follow,
                )
            else:
                result = _read_for_follower(
                    replica,
                    limits.follower,
                    asked,
                    limits.throttle,
                    bytes_max=bytes_max,
                    is_first=is_first,
                    warm_only=warm_only,
                )
        except ColdRead as cold:
            needed = cold.needed.after(tries.get(item, 0))
            cold_items.append(ColdItem(item, ColdPiece(_log_of(item), needed)))
            # Counts as if it gave all it may: partitions that would not fit need not be warm.
            bytes_left -= max(0, min(asked.partition_max_bytes, bytes_left))
            is_first = False
            continue
        except PeerError as error:
            reads.append(ItemRead(item, error))
            is_urgent = True
            continue
        reads.append(_make_read((item, result)))
        if result.records is not None:
            bytes_left -= result.records.size
            is_first = False
        elif result.diverging is not None or result.preferred_read_replica != NO_BROKER:
            is_urgent = True
    return _make_reading((reads, limits.bytes_max - bytes_left, is_urgent, cold_items))


def _read_for_follower(
    replica: Replica,
    follower: Incarnation,
    asked: AskedPartition,
    throttle: ReplicationThrottle | None,
    *,
    bytes_max: int,
    is_first: bool,
    warm_only: bool,
) -> ReadResult:
    """The records for a follower, or none of them while they are throttled."""
    is_in_sync = is_allowed = True
    if throttle is not None and not throttle.is_idle:
        is_in_sync = follower in replica.partition.isr
        is_allowed = throttle.allows(replica.name, is_in_sync=is_in_sync)
    result = read_for_follower(
        replica,
        follower,
        asked.fetch_offset,
        start_offset=asked.log_start_offset,
        bytes_max=bytes_max if is_allowed else 0,
        is_first=is_first and is_allowed,
        current_leader_epoch=asked.current_leader_epoch,
        last_fetched_epoch=asked.last_fetched_epoch,
        warm_only=warm_only,
    )
    if not is_in_sync and throttle is not None and result.records is not None:
        throttle.charge(replica.name, result.records.size, is_in_sync=is_in_sync)
    return result


def _log_of(item: FetchItem) -> Log:
    if item.replica is None or item.replica.log is None:
        raise TypeError(f"{item.topic!r} has no log that could be cold")
    return item.replica.log


def _locate(item: FetchItem, find: Find) -> Replica:
    """The replica as of now. A topic may have been deleted, and another created with its name."""
    try:
        replica = find(item.topic, item.asked.partition)
    except PeerError:
        item.attach(None)
        raise
    if replica is not item.replica:
        item.attach(replica)
    return replica
