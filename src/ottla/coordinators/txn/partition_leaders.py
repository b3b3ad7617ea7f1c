"""The leaders of a transaction's partitions, which write its markers."""

import asyncio
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from functools import partial
from typing import Any, NamedTuple, Protocol

from ottla.coordinators.runtime.shards import Shards
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.acknowledgement import Unacknowledged, until_committed
from ottla.replication.append.appender import Appender, AppendResult
from ottla.replication.append.flusher import Flusher
from ottla.replication.append.transaction_marker import TransactionMarker
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas
from ottla.seams.clock import Clock

# A marker is retried by its coordinator, so nothing is lost after a timeout. A coordinator on
# another broker waits for longer, so that it gets the codes of the partitions that have written.
COMMIT_TIMEOUT_MS = 10_000
# The markers of one turn of the event loop. The first append to a partition makes its log, which
# takes some tenths of a millisecond.
TURN_MARKERS_MAX = 32

Codes = Mapping[TopicPartition, ErrorCode]

# As in Kafka: the answer is about a partition, also if a coordinator has to write the marker.
_LEADER_CODES = dict.fromkeys(
    (
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
    ),
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)


class PartitionLeaders(Protocol):
    """Has markers written, on this broker or on others."""

    def write(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartition]
    ) -> Codes | Awaitable[Codes]:
        """The error code of each partition: NONE once its marker is committed.

        A marker is flushed as well, where `flush.messages` demands it: a coordinator that takes a
        transaction for complete does not write its markers again.
        """
        ...


class ComingCodes:
    """Codes that are still to come. Nothing is begun for somebody who does not wait for them."""

    __slots__ = ("_settle",)

    def __init__(self, settle: Callable[[], Coroutine[Any, Any, Codes]]) -> None:
        self._settle = settle

    def __await__(self) -> Generator[Any, Any, Codes]:
        return self._settle().__await__()


async def write_in_turns(
    leaders: PartitionLeaders,
    marker: TransactionMarker,
    partitions: Sequence[TopicPartition],
    may_continue: Callable[[], bool] = lambda: True,
) -> Codes:
    """Has the markers of many partitions written, and gives others their turn in between.

    The partitions for which it may not continue have NOT_COORDINATOR.
    """
    codes: dict[TopicPartition, ErrorCode] = {}
    coming: list[Awaitable[Codes]] = []
    for begin in range(0, len(partitions), TURN_MARKERS_MAX):
        if begin:
            await asyncio.sleep(0)
        turn = partitions[begin : begin + TURN_MARKERS_MAX]
        if not may_continue():
            codes |= dict.fromkeys(turn, ErrorCode.NOT_COORDINATOR)
            continue
        written = leaders.write(marker, turn)
        if isinstance(written, Mapping):
            codes |= written
        else:
            coming.append(written)
    return {**codes, **await all_codes(coming)}


async def all_codes(coming: Sequence[Awaitable[Codes]]) -> Codes:
    """Waits for all of them at the same time."""
    codes: dict[TopicPartition, ErrorCode] = {}

    async def wait(each: Awaitable[Codes]) -> None:
        codes.update(await each)

    async with asyncio.TaskGroup() as group:
        for each in coming:
            group.create_task(wait(each), name="markers")
    return codes


class MarkerAppends(NamedTuple):
    """The codes of a marker's partitions, and the appends that may not be committed yet."""

    codes: dict[TopicPartition, ErrorCode]
    unsettled: dict[TopicPartition, Unacknowledged]


class LocalPartitionLeaders:
    """Writes the markers of partitions that this broker leads.

    `coordinators` are the shards of coordinators by their topic: a marker in such a topic is a part
    of the coordinator's own log, and goes behind the records that it has decided before.
    """

    def __init__(
        self,
        replicas: Replicas,
        appender: Appender,
        flusher: Flusher,
        clock: Clock,
        coordinators: Mapping[str, Shards[Any, Any]],
    ) -> None:
        self._replicas = replicas
        self._appender = appender
        self._flusher = flusher
        self._clock = clock
        self._coordinators = coordinators

    def write(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartition]
    ) -> Codes | Awaitable[Codes]:
        appends = self.append(marker, partitions)
        if not appends.unsettled:
            return appends.codes
        return ComingCodes(partial(self._settled, appends))

    def append(
        self, marker: TransactionMarker, partitions: Iterable[TopicPartition]
    ) -> MarkerAppends:
        """Appends the marker to these partitions. The codes are final after `settle`."""
        codes: dict[TopicPartition, ErrorCode] = {}
        unsettled: dict[TopicPartition, Unacknowledged] = {}
        for name in partitions:
            try:
                replica = self._find(name)
                appended = self._append(replica, marker)
            except PeerError as error:
                codes[name] = _LEADER_CODES.get(error.code, error.code)
                continue
            codes[name] = ErrorCode.NONE
            if not appended.is_settled:
                unsettled[name] = Unacknowledged(replica, appended)
        return MarkerAppends(codes, unsettled)

    async def settle(self, appends: Sequence[MarkerAppends]) -> None:
        """Waits for the flushes and the replication of markers that need them."""
        unsettled = [
            (codes, name, append) for codes, left in appends for name, append in left.items()
        ]
        for codes, name, append in unsettled:
            codes[name] = await self._flushed(append)
        errors = await until_committed([append for _, _, append in unsettled], COMMIT_TIMEOUT_MS)
        for (codes, name, _), error in zip(unsettled, errors, strict=True):
            if error is not None:
                codes[name] = error.code

    def _find(self, name: TopicPartition) -> Replica:
        replica = self._replicas.named(name.topic, name.partition)
        if replica is None:
            raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name} is not on this broker")
        if replica.is_unusable:
            raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, f"{name} could not be opened")
        return replica

    def _append(self, replica: Replica, marker: TransactionMarker) -> AppendResult:
        coordinator = self._coordinators.get(replica.name.topic)
        if coordinator is not None:
            return coordinator.of_partition(replica.name.partition).append_marker(marker)
        return self._appender.append_marker(replica, marker, now_ms=self._clock.wall_ms())

    async def _settled(self, appends: MarkerAppends) -> Codes:
        await self.settle([appends])
        return appends.codes

    async def _flushed(self, append: Unacknowledged) -> ErrorCode:
        log = append.replica.log
        if log is not None and log.messages_unflushed >= log.flush_messages:
            try:
                await self._flusher.flush(log, append.appended.committed_offset)
            except (StorageError, OSError):
                return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.NONE
