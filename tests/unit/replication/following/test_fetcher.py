"""A fetcher and its leader: what it asks for, and what it does with errors."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.address import Address
from ottla.client.errors import ConnectionLost
from ottla.client.options import ClientOptions
from ottla.client.wire.in_flight import EncodeRequest
from ottla.errors import ErrorCode, StorageError
from ottla.metadata.values import Incarnation, PartitionId
from ottla.native import replica_fetch
from ottla.protocol.exchange import decode_request, encode_response
from ottla.protocol.messages import APIS, Api
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse, PartitionResult, TopicResult
from ottla.replication.following import fetcher as fetchers
from ottla.replication.following.fetcher import ELECTION_BACKOFF_MS, FetcherParts, ReplicaFetcher
from ottla.replication.following.replica_update import FollowerLogs
from ottla.replication.following.session import FetchBounds
from ottla.replication.replica import Replica
from ottla.replication.throttle import ReplicationThrottle
from ottla.storage.log.log import Log
from tests.sim.seams.loop import run
from tests.support.replication.partitions import ME, OTHER, Partitions
from tests.support.request_frames import joined
from tests.unit.replication.following.test_replica_update import failure, result, stored

FETCH = APIS[1]
CLIENT_ID = "broker-2-fetcher"
BACKOFF_MS = 200


class Leader:
    """The leader's end of the connection. Tests give its answers."""

    def __init__(self, version: int) -> None:
        self._version = version
        self.requests: list[FetchRequest] = []
        self.answers: list[Any] = []
        self.connections = 0
        self.timeout_ms = 0

    async def ask(self, request: FetchRequest, *, timeout_ms: int) -> FetchResponse:
        self.requests.append(request)
        self.timeout_ms = timeout_ms
        if not self.answers:
            await asyncio.sleep(request.max_wait_ms / 1e3)
            return FetchResponse(session_id=5, responses=())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if callable(answer):
            answer = answer()
        assert isinstance(answer, FetchResponse)
        return answer

    def highest_version(self, api: Api) -> int:
        assert api is FETCH
        return self._version

    def ask_encoded(
        self, api: Api, version: int, encode: EncodeRequest, timeout_ms: int
    ) -> "asyncio.Task[memoryview]":
        assert (api, version) == (FETCH, self._version)
        header, _, request = decode_request(encode(7)[4:])
        assert header.correlation_id == 7
        assert header.client_id == CLIENT_ID

        async def answer() -> memoryview:
            response = await self.ask(request, timeout_ms=timeout_ms)
            return memoryview(joined(encode_response(7, FETCH, version, response))[4:])

        return asyncio.get_running_loop().create_task(answer())

    def close(self) -> None: ...


class World:
    """A fetcher with one partition, and its leader."""

    def __init__(self, version: int) -> None:
        self.partitions = Partitions()
        self.replica: Replica = self.partitions.create(leader=OTHER, isr=(OTHER, ME))
        state = self.replica.partition
        self.key = PartitionId(state.topic_id, state.index)
        self.leader = Leader(version)
        self.problems: list[str] = []
        self.sizes: list[int] = []
        self.flushed: list[tuple[int, int]] = []
        self.flush_errors: list[Exception] = []
        self.throttle = ReplicationThrottle(self.partitions.clock.steady_ns)
        self.address: Address | None = Address("leader", 9093)
        replicas = self.partitions.replicas
        self.fetcher = ReplicaFetcher(
            OTHER.broker_id,
            FetcherParts(
                me=replicas.me,
                address_of=lambda _id: self.address,
                logs=FollowerLogs(replicas.create_followers_log, lambda *_: None),
                flush=self._flush,
                net=None,  # type: ignore[arg-type]  # `connect` is replaced
                clock=self.partitions.clock,
                bounds=lambda: FetchBounds(500, 1, 1000, 100),
                backoff_ms=lambda: BACKOFF_MS,
                options=ClientOptions(client_id=CLIENT_ID, request_timeout_ms=700),
                throttle=self.throttle,
                on_bytes_in=self.sizes.append,
                problem=lambda where, error: self.problems.append(f"{where}: {error}"),
            ),
        )

    async def _flush(self, log: Log, offset: int) -> None:
        """With the number of requests before it. Takes half a second, and fails as told."""
        self.flushed.append((offset, len(self.leader.requests)))
        await asyncio.sleep(0.5)
        if self.flush_errors:
            raise self.flush_errors.pop(0)
        flush = log.begin_flush()
        flush.run()
        log.end_flush(flush)

    def answer(self, *results: PartitionResult, session: int = 5) -> FetchResponse:
        return FetchResponse(
            session_id=session,
            responses=(TopicResult(topic_id=self.key.topic_id, partitions=results),),
        )

    @property
    def named(self) -> list[list[int]]:
        """The offsets that each request names."""
        return [
            [each.fetch_offset for topic in request.topics for each in topic.partitions]
            for request in self.leader.requests
        ]


def with_fetcher(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    """Twice: the second leader has an earlier version, so that the codec is used."""
    for version in (replica_fetch.VERSION, replica_fetch.VERSION - 1):
        _tell(World(version), story)


def _tell(world: World, story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def tell() -> None:
        async def connect(*_: object) -> Leader:
            world.leader.connections += 1
            return world.leader

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fetchers, "connect", connect)
            task = asyncio.get_running_loop().create_task(world.fetcher.run())
            try:
                await story(world)
            finally:
                task.cancel()
                assert isinstance(
                    (await asyncio.gather(task, return_exceptions=True))[0], asyncio.CancelledError
                )

    run(tell(), clock=world.partitions.clock)


def test_it_asks_for_nothing_before_it_has_a_partition() -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(5)
        assert world.leader.connections == 0
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(1)
        assert world.named[:2] == [[0], []]
        world.fetcher.remove(world.key)
        await asyncio.sleep(1)
        count = len(world.leader.requests)
        await asyncio.sleep(5)
        assert len(world.leader.requests) == count

    with_fetcher(story)


def test_what_it_gets_it_appends_and_asks_for_what_follows() -> None:
    async def story(world: World) -> None:
        world.leader.answers = [
            world.answer(result(stored(0, 0, b"a", b"b"))),
            world.answer(result(stored(2, 0, b"c"), high_watermark=2)),
        ]
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(0.1)
        assert world.named == [[0], [2], [3]]
        assert (world.replica.end_offset, world.replica.high_watermark) == (3, 2)
        assert world.leader.timeout_ms == 1200, "the wait at the leader, and the time to answer"

    with_fetcher(story)


def test_the_leader_hears_of_records_after_their_flush_if_the_topic_demands_one() -> None:
    async def story(world: World) -> None:
        world.leader.answers = [
            world.answer(result(stored(0, 0, b"a"))),
            world.answer(result(stored(1, 0, b"b"))),
        ]
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(0.1)
        assert world.named == [[0], [1], [2]]
        assert world.flushed == []
        assert world.replica.log is not None
        world.replica.log.flush_messages = 1
        world.leader.answers = [world.answer(result(stored(2, 0, b"c")))]
        await asyncio.sleep(0.7)
        assert world.flushed == [(3, 4)]
        assert world.named[3:] == [[]], "not before the flush is over"
        await asyncio.sleep(0.5)
        assert world.named[4] == [3]
        assert world.replica.log.recovery_point == 3

    with_fetcher(story)


def test_a_partition_whose_flush_fails_is_left_out_and_flushed_again() -> None:
    async def story(world: World) -> None:
        world.flush_errors = [OSError("full")]
        log = world.partitions.replicas.create_followers_log(world.replica, 0)
        log.append_replicated(stored(0, 0, b"a"))
        log.flush_messages = 1
        # As of another fetcher, which was stopped before its flush.
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(0.6)
        assert "full" in world.problems[0]
        assert world.named == []
        await asyncio.sleep(BACKOFF_MS / 1e3 + 0.6)
        assert world.flushed == [(1, 0), (1, 0)]
        assert world.named[0] == [1]

    with_fetcher(story)


def test_a_partition_that_fails_is_left_out_for_the_backoff() -> None:
    async def story(world: World) -> None:
        other = world.partitions.create("another", leader=OTHER, isr=(OTHER, ME))
        world.leader.answers = [
            world.answer(failure(ErrorCode.KAFKA_STORAGE_ERROR)),
            FetchResponse(session_id=5, responses=()),
        ]
        world.fetcher.put(world.key, world.replica)
        world.fetcher.put(PartitionId(other.partition.topic_id, 0), other)
        await asyncio.sleep(0.1)
        assert world.named == [[0, 0], [], []]
        (forgotten,) = world.leader.requests[1].forgotten_topics_data
        assert forgotten.topic_id == world.key.topic_id
        assert "KAFKA_STORAGE_ERROR" in world.problems[0]
        await asyncio.sleep(1)
        assert world.named[3] == [0], "named again by the first request after the backoff"

    with_fetcher(story)


@pytest.mark.parametrize(
    ("code", "backoff_ms"),
    [
        (ErrorCode.KAFKA_STORAGE_ERROR, BACKOFF_MS),
        (ErrorCode.UNKNOWN_LEADER_EPOCH, ELECTION_BACKOFF_MS),
    ],
)
def test_while_all_partitions_are_left_out_the_leader_is_not_asked(
    code: ErrorCode, backoff_ms: int
) -> None:
    async def story(world: World) -> None:
        world.leader.answers = [world.answer(failure(code))]
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(0.9 * backoff_ms / 1e3)
        assert world.named == [[0]]
        await asyncio.sleep(0.2 * backoff_ms / 1e3)
        assert world.named[1] == [0]
        assert bool(world.problems) == (backoff_ms == BACKOFF_MS), "elections are no fault"

    with_fetcher(story)


def test_a_full_disk_loses_nothing_and_is_tried_again() -> None:
    async def story(world: World) -> None:
        world.partitions.disk.resize(0)
        world.leader.answers = [world.answer(result(stored(0, 0, b"a")))]
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(0.1)
        assert world.replica.end_offset == 0
        world.partitions.disk.resize(1 << 30)
        world.leader.answers = [
            FetchResponse(session_id=5, responses=()),
            world.answer(result(stored(0, 0, b"a"))),
        ]
        await asyncio.sleep(2)
        assert world.replica.end_offset == 1

    with_fetcher(story)


def test_a_log_that_goes_offline_does_not_stop_the_fetcher() -> None:
    async def story(world: World) -> None:
        world.leader.answers = [world.answer(result(stored(0, 0, b"a")))]
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(0.1)
        assert world.replica.log is not None
        world.replica.log.abandon(StorageError("gone"))
        world.leader.answers = [world.answer(result(stored(1, 0, b"b")))]
        await asyncio.sleep(2)
        assert world.problems
        assert len(world.leader.requests) > 3

    with_fetcher(story)


@pytest.mark.parametrize(
    "answer",
    [
        FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session_id=0, responses=()),
        ConnectionLost("cut"),
    ],
)
def test_a_leader_that_does_not_answer_is_asked_again(answer: Any) -> None:
    async def story(world: World) -> None:
        world.leader.answers = [world.answer(result(stored(0, 0, b"a"))), answer]
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(1)
        assert world.leader.connections == 2
        third = world.leader.requests[2]
        assert (third.session_id, third.session_epoch) == (0, 0), "a new session names everything"
        assert world.named[2] == [1]
        assert world.problems

    with_fetcher(story)


def test_an_answer_of_an_earlier_leader_epoch_is_ignored() -> None:
    async def story(world: World) -> None:
        def late() -> FetchResponse:
            # Meanwhile another broker leads, and then the same one again.
            world.partitions.change(world.replica, leader=ME)
            world.partitions.change(world.replica, leader=OTHER)
            world.fetcher.put(world.key, world.replica)
            return world.answer(result(stored(0, 0, b"of another history")))

        world.leader.answers = [late]
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(0.1)
        assert world.replica.end_offset == 0
        (named,) = world.leader.requests[1].topics[0].partitions
        assert named.current_leader_epoch == 2

    with_fetcher(story)


def test_under_a_new_epoch_of_its_broker_it_begins_a_new_session() -> None:
    async def story(world: World) -> None:
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(0.1)
        later = Incarnation(ME.broker_id, ME.broker_epoch + 1)
        me = world.partitions.replicas.me
        me.incarnation = None
        await asyncio.sleep(2)
        count = len(world.leader.requests)
        await asyncio.sleep(2)
        assert len(world.leader.requests) == count, "without an epoch it does not fetch"
        me.incarnation = later
        await asyncio.sleep(1)
        first = world.leader.requests[count]
        assert first.replica_state is not None
        assert first.replica_state.replica_epoch == later.broker_epoch
        assert (first.session_epoch, world.named[count]) == (0, [0])

    with_fetcher(story)


def test_a_leader_without_an_address_is_looked_for_until_it_has_one() -> None:
    async def story(world: World) -> None:
        world.address = None
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(5)
        assert world.leader.connections == 0
        world.address = Address("leader", 9093)
        await asyncio.sleep(1)
        assert world.leader.connections == 1

    with_fetcher(story)


def test_a_throttled_replica_is_left_out_until_its_rate_allows_more() -> None:
    async def story(world: World) -> None:
        records = stored(0, 0, b"x" * 1_500)
        world.partitions.change(world.replica, isr=(OTHER,))
        world.throttle.set_topic("events", None)
        world.throttle.set_rate(1_000)
        world.leader.answers = [world.answer(result(records))]
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(0.5)
        assert world.named == [[0]], "half a second is overdrawn"
        assert world.sizes == [len(records)]
        await asyncio.sleep(0.2)
        assert world.named[1] == [1]
        assert not world.problems

    with_fetcher(story)


def test_a_replica_in_sync_is_not_throttled() -> None:
    async def story(world: World) -> None:
        world.throttle.set_topic("events", None)
        world.throttle.set_rate(1_000)
        world.leader.answers = [world.answer(result(stored(0, 0, b"x" * 1_500)))]
        world.fetcher.put(world.key, world.replica)
        await asyncio.sleep(0.1)
        assert world.named == [[0], [1]]

    with_fetcher(story)
