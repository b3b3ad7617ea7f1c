"""Fetches all partitions that this broker follows from one leader, on one connection."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from ottla.address import Address
from ottla.client.connection.connection import Connection, connect
from ottla.client.errors import ClientError, ConnectionLost, error_code
from ottla.client.options import ClientOptions
from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.metadata.values import PartitionId
from ottla.native import replica_fetch
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.fetch import FetchResponse, PartitionResult
from ottla.protocol.primitives import make_uuid
from ottla.replication.following.replica_update import (
    FollowerLogs,
    OrdinaryUpdate,
    PartitionUpdate,
    position_of,
    update_replica,
)
from ottla.replication.following.session import FetchBounds, FollowerSession, PlannedFetch
from ottla.replication.local_broker import LocalBroker
from ottla.replication.replica import Replica
from ottla.replication.throttle import ReplicationThrottle
from ottla.seams.clock import Clock
from ottla.seams.net import Net
from ottla.storage.log.log import Log
from ottla.tuples import maker

FETCH = APIS[1]
# The id of the session, and the partitions of an ordinary answer.
OrdinaryResponse = tuple[int, list[tuple[PartitionId, PartitionUpdate]]]
# Other tasks run after this many bytes were appended.
TURN_BYTES_MAX = 1 << 20
# One of both brokers has not heard of the other's leadership yet.
_OF_ELECTIONS = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)
ELECTION_BACKOFF_MS = 50
# A throttled replica asks again after this at the latest: its rate may have been raised.
THROTTLED_S_MAX = 1.0


_make_partition = maker(PartitionId)
_make_update = maker(OrdinaryUpdate)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherParts:
    """The parts of a node that its fetchers use."""

    me: LocalBroker
    # The inter-broker address of a broker; None if it is not known or not live.
    address_of: Callable[[int], Address | None]
    logs: FollowerLogs
    # Makes the records of a log durable up to an offset. As of `Flusher.flush`.
    flush: Callable[[Log, int], Awaitable[None]]
    net: Net
    clock: Clock
    bounds: Callable[[], FetchBounds]
    backoff_ms: Callable[[], int]
    options: ClientOptions
    throttle: ReplicationThrottle
    # Told of the size of appended records.
    on_bytes_in: Callable[[int], None]
    # Reports a fault of a partition or a leader.
    problem: Callable[[str, Exception], None]


class ReplicaFetcher:
    """`run` does not end. Partitions may be put and removed at any time.

    A partition whose answer could not be applied is left out for `replica.fetch.backoff.ms`, or a
    shorter time if that is due to an election.
    """

    def __init__(self, leader_id: int, parts: FetcherParts) -> None:
        self.leader_id = leader_id
        self._parts = parts
        self._replicas: dict[PartitionId, Replica] = {}
        # Those that are left out, and until when by the steady clock.
        self._delayed_ns: dict[PartitionId, int] = {}
        # Those with records that have to be flushed before the leader hears of them.
        self._unflushed: dict[PartitionId, Replica] = {}
        self._session: FollowerSession | None = None
        self._client_id = parts.options.client_id.encode()
        self._has_partitions = asyncio.Event()

    def __len__(self) -> int:
        return len(self._replicas)

    def put(self, partition: PartitionId, replica: Replica) -> None:
        """Fetches a partition from the end of its log on, in its current leader epoch."""
        self._replicas[partition] = replica
        self._delayed_ns.pop(partition, None)
        # Another fetcher may have appended what it did not flush.
        self._note_unflushed(partition, replica)
        self._has_partitions.set()
        if self._session is not None:
            self._session.put(partition, position_of(replica))

    def start_moved(self, partition: PartitionId) -> None:
        """The log of a partition starts later than before, which the leader wants to know."""
        replica = self._replicas.get(partition)
        if replica is not None and self._session is not None and partition not in self._delayed_ns:
            self._session.put(partition, position_of(replica))

    def remove(self, partition: PartitionId) -> None:
        """What is still on its way for the partition is ignored."""
        self._replicas.pop(partition, None)
        self._delayed_ns.pop(partition, None)
        if self._session is not None:
            self._session.remove(partition)
        if not self._replicas:
            self._has_partitions.clear()

    async def run(self) -> None:
        while True:
            await self._has_partitions.wait()
            connection = await self._connect()
            if connection is not None:
                try:
                    await self._fetch_on(connection)
                except ClientError as error:
                    self._parts.problem(self._name, error)
                finally:
                    self._session = None
                    connection.close()
            await asyncio.sleep(self._parts.backoff_ms() / 1e3)

    async def _connect(self) -> Connection | None:
        address = self._parts.address_of(self.leader_id)
        if address is None:
            return None
        try:
            return await connect(self._parts.net, address, self._parts.options)
        except ClientError as error:
            self._parts.problem(self._name, error)
            return None

    async def _fetch_on(self, connection: Connection) -> None:
        """Fetches until the session ends: refused by the leader, or of a former incarnation."""
        me = self._parts.me.incarnation
        if me is None:
            return
        session = self._session = FollowerSession(me)
        for partition, replica in self._replicas.items():
            if partition not in self._delayed_ns:
                session.put(partition, position_of(replica))
        takes_ordinary = connection.highest_version(FETCH) == replica_fetch.VERSION
        while True:
            if self._unflushed:
                await self._flush(session)
            if self._parts.me.incarnation != me or not self._replicas:
                return
            self._resume(session)
            if not len(session):
                # All are left out for now. The leader would answer an empty request at once.
                await asyncio.sleep(self._longest_pause_s())
                continue
            bounds = self._parts.bounds()
            timeout_ms = bounds.wait_ms_max + self._parts.options.request_timeout_ms
            request = session.request(bounds)
            if takes_ordinary and request.is_ordinary:
                encode = partial(_encoded, self._client_id, request)
                response = _read(
                    await connection.ask_encoded(FETCH, replica_fetch.VERSION, encode, timeout_ms)
                )
            else:
                response = await connection.ask(request.message(), timeout_ms=timeout_ms)
            if isinstance(response, FetchResponse):
                if response.error_code != ErrorCode.NONE:
                    code = error_code(response.error_code)
                    refused = PeerError(code, f"the leader refuses to be followed: {code.name}")
                    self._parts.problem(self._name, refused)
                    return
                session.answered(response.session_id)
                await self._take(_results(response), session)
            else:
                session_id, updates = response
                session.answered(session_id)
                await self._take(updates, session)

    def _note_unflushed(self, partition: PartitionId, replica: Replica) -> None:
        log = replica.log
        if log is not None and log.messages_unflushed >= log.flush_messages:
            self._unflushed[partition] = replica

    async def _flush(self, session: FollowerSession) -> None:
        """Flushes where `flush.messages` demands it.

        The next request tells the leader the log end offset, which counts as acknowledged then.
        """
        unflushed, self._unflushed = self._unflushed, {}
        for partition, replica in unflushed.items():
            log = replica.log
            if log is None or self._replicas.get(partition) is not replica:
                continue
            try:
                await self._parts.flush(log, log.end_offset)
            except (OSError, StorageError) as error:
                self._parts.problem(str(replica.name), error)
                if self._replicas.get(partition) is replica:
                    self._unflushed[partition] = replica
                    self._leave_out(partition, session, self._parts.backoff_ms())

    def _leave_out(self, partition: PartitionId, session: FollowerSession, backoff_ms: int) -> None:
        session.remove(partition)
        self._delayed_ns[partition] = self._parts.clock.steady_ns() + backoff_ms * 1_000_000

    def _longest_pause_s(self) -> float:
        """The time until the first of the partitions that are left out is due."""
        due_ns = min(self._delayed_ns.values()) - self._parts.clock.steady_ns()
        return max(0.001, due_ns / 1e9)

    def _resume(self, session: FollowerSession) -> None:
        """Fetches those again that were left out for long enough."""
        if self._delayed_ns:
            now_ns = self._parts.clock.steady_ns()
            for partition in [key for key, due in self._delayed_ns.items() if due <= now_ns]:
                del self._delayed_ns[partition]
                session.put(partition, position_of(self._replicas[partition]))

    async def _take(
        self, updates: Iterable[tuple[PartitionId, PartitionUpdate]], session: FollowerSession
    ) -> None:
        appended_bytes = 0
        for partition, update in updates:
            if appended_bytes >= TURN_BYTES_MAX:
                appended_bytes = 0
                await asyncio.sleep(0)
            replica = self._current(partition, session)
            if replica is not None:
                self._update(partition, replica, update, session)
                appended_bytes += len(update.records) if update.records else 0

    def _current(self, partition: PartitionId, session: FollowerSession) -> Replica | None:
        """The replica, if it still follows as it did when it was asked for.

        Since then it may follow another leader, or the same one in a later epoch, whose log may
        have been truncated in between.
        """
        if session is not self._session or not session.is_as_asked(partition):
            return None
        return self._replicas.get(partition)

    def _update(
        self,
        partition: PartitionId,
        replica: Replica,
        update: PartitionUpdate,
        session: FollowerSession,
    ) -> None:
        try:
            update_replica(replica, update, self._parts.logs)
        except (PeerError, OSError, StorageError) as error:
            backoff_ms = self._parts.backoff_ms()
            # Of the leader, or a full disk: nothing is lost, and it is tried again.
            if isinstance(error, PeerError) and error.code in _OF_ELECTIONS:
                backoff_ms = min(backoff_ms, ELECTION_BACKOFF_MS)
            else:
                self._parts.problem(str(replica.name), error)
            self._leave_out(partition, session, backoff_ms)
            return
        session.put(partition, position_of(replica))
        if update.records:
            self._note_unflushed(partition, replica)
            size_bytes = len(update.records)
            self._parts.on_bytes_in(size_bytes)
            if not self._parts.throttle.is_idle:
                self._charge(partition, replica, size_bytes, session)

    def _charge(
        self, partition: PartitionId, replica: Replica, size_bytes: int, session: FollowerSession
    ) -> None:
        """Leaves out a replica that is throttled, until it may go on."""
        throttle, is_in_sync = self._parts.throttle, session.me in replica.partition.isr
        throttle.charge(replica.name, size_bytes, is_in_sync=is_in_sync)
        if not throttle.allows(replica.name, is_in_sync=is_in_sync):
            session.remove(partition)
            wait_s = min(throttle.wait_s, THROTTLED_S_MAX)
            self._delayed_ns[partition] = self._parts.clock.steady_ns() + int(wait_s * 1e9)

    @property
    def _name(self) -> str:
        return f"replication from broker {self.leader_id}"


def _encoded(client_id: bytes, request: PlannedFetch, correlation_id: int) -> bytearray:
    replica, limits, session, topics, _ = request
    return replica_fetch.write_request(correlation_id, client_id, replica, limits, session, topics)


def _read(frame: memoryview) -> FetchResponse | OrdinaryResponse:
    """The leader's answer, decoded by native code if that is possible. ConnectionLost."""
    answer = replica_fetch.read_answer(frame)
    if answer is None:
        try:
            response: FetchResponse = decode_response(frame, FETCH, replica_fetch.VERSION)
        except PeerError as error:
            raise ConnectionLost(f"the leader sent what is no answer: {error}") from None
        return response
    session_id, partitions = answer
    return session_id, [
        (
            _make_partition((make_uuid(topic_id), index)),
            _make_update((high_watermark, start_offset, frame[begin:end], ErrorCode.NONE, None)),
        )
        for topic_id, index, high_watermark, start_offset, begin, end in partitions
    ]


def _results(response: FetchResponse) -> Iterator[tuple[PartitionId, PartitionResult]]:
    for topic in response.responses:
        for result in topic.partitions:
            yield PartitionId(topic.topic_id, result.partition_index), result
