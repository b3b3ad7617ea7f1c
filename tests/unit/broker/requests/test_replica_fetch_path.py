"""Ordinary fetches of a follower, as the leader answers them without the codec.

`FAST` requests go through `ReplicaFetchPath`. `BY_CODEC` requests have the same meaning, but the
fast path declines them, so that their answers are the codec's.
"""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from ottla.broker.net.connections import ConnectionLimits, Connections
from ottla.broker.net.response_queue import PendingResponse
from ottla.broker.net.session import Session, Unlimited
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.replica_fetch_path import FETCH_KEY, ParkedFetch, ReplicaFetchPath
from ottla.broker.requests.served_apis import SERVED
from ottla.broker.requests.services import Identity
from ottla.broker.tasks import Tasks
from ottla.errors import ErrorCode
from ottla.metadata import records
from ottla.metadata.values import (
    AclOperation,
    AclResource,
    BrokerState,
    Endpoint,
    Incarnation,
)
from ottla.metrics.node import NodeMetrics
from ottla.protocol.batch import read_header
from ottla.protocol.exchange import decode_response, encode_request
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.fetch import (
    FetchRequest,
    ForgottenTopic,
    Partition,
    ReplicaState,
    Topic,
)
from ottla.replication.append.acknowledgement import CommitWait, Unacknowledged
from ottla.replication.append.appender import AppendResult
from ottla.replication.fetch.cold_reads import ColdReads
from ottla.replication.fetch.fetch import NO_SESSION
from ottla.replication.fetch.follower_sessions import FollowerSessions
from ottla.replication.fetch.session import INITIAL_EPOCH
from ottla.replication.replica import Replica, TopicRules
from ottla.replication.throttle import ReplicationThrottle
from ottla.settings.listeners import SecurityProtocol
from ottla.settings.sources import load
from ottla.storage.log.config import LogConfig
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.net import SimNetwork
from tests.sim.seams.threads import SimThreads
from tests.support.broker.produce_and_fetch import values
from tests.support.broker.sessions import by_codec
from tests.support.broker.simulated_broker import PORT, Client, Notes, encoded
from tests.support.replication.partitions import ME, OTHER, RULES, Partitions, topic_id

FETCH = APIS[FETCH_KEY]
VERSION = 18
BROKERS, CLIENTS = "BROKERS", "CLIENTS"
THIRD = Incarnation(3, 30)
WAIT_MS = 500
FAST, BY_CODEC = "fast", "by the codec"
# Long enough for all that happens in one turn, and shorter than any wait.
A_MOMENT_S = 0.001
# The batches of a cold log are read from its files only.
COLD_RULES = replace(
    RULES, log=LogConfig(segment_bytes=40_000, index_interval_bytes=4_096, tail_batches_max=4)
)
COLD_COUNT = 60


class At(NamedTuple):
    """A position of the follower, and which partition it is of."""

    partition: int
    offset: int
    topic: int = 1
    last_epoch: int = -1
    leader_epoch: int = -1
    start_offset: int = 0
    bytes_max: int = 1 << 20


class Asked:
    """A fetch, as a connection holds it until it is answered."""

    def __init__(self, outcome: object) -> None:
        self.loop = asyncio.get_running_loop()
        self.asked_s = self.loop.time()
        self.frame: bytes | None = None
        self.waited_s: float | None = None
        self.answers = 0
        self.pending: PendingResponse | None = None
        self._task: asyncio.Task[None] | None = None
        if isinstance(outcome, list):
            self._take(outcome)
        elif isinstance(outcome, PendingResponse):
            self.pending = outcome
            outcome.future.add_done_callback(self._kept)
        else:
            assert isinstance(outcome, Awaitable), outcome
            self._task = self.loop.create_task(self._later(outcome))

    @property
    def is_parked(self) -> bool:
        return self.frame is None

    @property
    def parked(self) -> ParkedFetch:
        assert self.pending is not None
        return cast("ParkedFetch", self.pending.future)

    @property
    def response(self) -> Any:
        assert self.frame is not None, "it is not answered"
        return decode_response(memoryview(self.frame)[4:], FETCH, VERSION)

    @property
    def told(self) -> list[tuple[int, int, int, list[bytes | None]]]:
        """Topic, index, high watermark and values of each partition. None of them has an error."""
        told = []
        for topic in self.response.responses:
            for each in topic.partitions:
                assert each.error_code == 0
                assert each.last_stable_offset == each.high_watermark
                number = int.from_bytes(topic.topic_id, "big")
                found = values(each.records)
                told.append((number, each.partition_index, each.high_watermark, found))
        return told

    @property
    def codes(self) -> dict[tuple[int, int], int]:
        return {
            (int.from_bytes(topic.topic_id, "big"), each.partition_index): each.error_code
            for topic in self.response.responses
            for each in topic.partitions
        }

    def disconnect(self) -> None:
        if self.pending is not None:
            self.pending.abandon()
        elif self._task is not None:
            # After its first step, as connections do it.
            self.loop.call_soon(self._task.cancel)

    def _kept(self, promise: Any) -> None:
        assert self.pending is not None
        assert promise is self.pending.future
        parts = self.pending.finish(promise)
        assert parts is not None
        self._take(parts)

    async def _later(self, outcome: Awaitable[Any]) -> None:
        self._take(await outcome)

    def _take(self, parts: Sequence[Any]) -> None:
        self.answers += 1
        assert self.answers == 1, "it is answered twice"
        self.waited_s = self.loop.time() - self.asked_s
        self.frame = b"".join(
            bytes(part) if isinstance(part, bytes | bytearray | memoryview) else part.read()
            for part in parts
        )
        assert int.from_bytes(self.frame[:4], "big") == len(self.frame) - 4


class Leader:
    """What a fetch meets on a broker that leads two partitions of each of two topics."""

    def __init__(
        self,
        *,
        rules: TopicRules = RULES,
        isr: tuple[Incarnation, ...] = (ME, OTHER),
        replicas: tuple[int, ...] = (),
        **settings: str,
    ) -> None:
        self.kept = Partitions(rules)
        for follower in (OTHER, THIRD):
            self.set_broker(follower)
        for name in ("events", "orders"):
            self.kept.create(name, 2, isr=isr, replicas=replicas, min_isr=2)
        self.faults: list[Exception] = []
        self.metrics = NodeMetrics()
        clock, entropy = self.kept.clock, SimEntropy(1)
        self.threads = SimThreads(entropy.fork("threads"))
        self.tasks = Tasks(self.faults.append)
        self.sessions = FollowerSessions(clock, entropy)
        self.throttle = ReplicationThrottle(clock.steady_ns)
        given = {name.replace("_", "."): value for name, value in settings.items()}
        services: Any = SimpleNamespace(
            clock=clock,
            settings=load(given={"log.dirs": "/data", **given}, environment={}, file=None),
            tasks=self.tasks,
            metrics=self.metrics,
            image=self.kept.image,
            identity=Identity(
                node_id=ME.broker_id,
                cluster_id="tests",
                served_apis=SERVED,
                inter_broker_listener=BROKERS,
                has_peers=True,
            ),
            partitions=SimpleNamespace(
                replicas=self.kept.replicas,
                cold_reads=ColdReads(self.threads),
                fetch_sessions=None,
                follower_sessions=self.sessions,
                throttles=SimpleNamespace(leader=self.throttle),
            ),
            inter_broker=None,
            authorizer=None,
        )
        self.services = services
        self.dispatch = Dispatch(services, SERVED, self.faults.append)
        self.path = ReplicaFetchPath(services, self.faults.append)

    def set_broker(self, follower: Incarnation, state: BrokerState = BrokerState.UP) -> None:
        name = f"host{follower.broker_id}"
        endpoint = Endpoint(BROKERS, name, PORT, SecurityProtocol.PLAINTEXT)
        broker = records.Broker(
            broker_id=follower.broker_id,
            epoch=follower.broker_epoch,
            inherits=None,
            endpoints=(endpoint,),
            rack=None,
            host=name,
            state=state,
        )
        entry = self.kept.commit(broker)
        if hasattr(self, "sessions"):
            self.sessions.follow(self.kept.image, entry)

    def session(self, listener: str = BROKERS) -> Session:
        return Session(self.dispatch, listener, SecurityProtocol.PLAINTEXT)

    def replica(self, index: int = 0, topic: int = 1) -> Replica:
        return self.kept.find(topic_id(topic), index)

    def append(self, *sent: bytes, index: int = 0, topic: int = 1) -> AppendResult:
        return self.kept.append(self.replica(index, topic), *sent)

    def lead_anew(self, index: int = 0, topic: int = 1) -> None:
        """Another broker leads, and then this one again: the leader epoch is two higher."""
        self.kept.change(self.replica(index, topic), leader=OTHER)
        self.kept.change(self.replica(index, topic), leader=ME)

    @property
    def parked_of(self) -> dict[int, ParkedFetch]:
        slots = self.path._slots
        return {each: slot.parked for each, slot in slots.items() if slot.parked is not None}

    def kept_session(self, follower: Incarnation = OTHER) -> Any:
        (session,) = self.sessions._by_broker[follower.broker_id]._sessions.values()
        return session

    def unharmed(self) -> None:
        assert self.faults == []


class Follower:
    """A follower, its fetch session and its requests."""

    def __init__(self, leader: Leader, kind: str = FAST, incarnation: Incarnation = OTHER) -> None:
        self.leader = leader
        self.kind = kind
        self.incarnation = incarnation
        self.connection = leader.session()
        self.session_id, self.session_epoch = NO_SESSION, INITIAL_EPOCH
        self.correlation_id = 100

    def request(
        self,
        *positions: At,
        wait_ms: int = WAIT_MS,
        bytes_min: int = 1,
        bytes_max: int = 10 << 20,
        version: int = VERSION,
        **fields: Any,
    ) -> bytes:
        """The frame of a fetch in this session, with its length."""
        topics = dict.fromkeys(each.topic for each in positions)
        named = tuple(
            Topic(
                topic=f"topic {number}",
                topic_id=topic_id(number),
                partitions=tuple(
                    Partition(
                        partition=at.partition,
                        current_leader_epoch=at.leader_epoch,
                        fetch_offset=at.offset,
                        last_fetched_epoch=at.last_epoch,
                        log_start_offset=at.start_offset,
                        partition_max_bytes=at.bytes_max,
                    )
                    for at in positions
                    if at.topic == number
                ),
            )
            for number in topics
        )
        told: dict[str, Any] = {
            "replica_state": ReplicaState(
                replica_id=self.incarnation.broker_id, replica_epoch=self.incarnation.broker_epoch
            ),
            "session_id": self.session_id,
            "session_epoch": self.session_epoch,
            "topics": named,
            **fields,
        }
        request = FetchRequest(
            max_wait_ms=wait_ms, min_bytes=bytes_min, max_bytes=bytes_max, **told
        )
        self.correlation_id += 1
        parts = encode_request(self.correlation_id, FETCH, version, request, "broker 2")
        return b"".join(map(bytes, cast("list[bytes]", parts)))

    def open(self, *positions: At) -> Any:
        """Begins a session, which is always the codec's work; the response."""
        self.session_id, self.session_epoch = NO_SESSION, INITIAL_EPOCH
        asked = Asked(self.dispatched(self.request(*positions, wait_ms=0)))
        response = asked.response
        assert response.error_code == 0
        self.session_id, self.session_epoch = response.session_id, INITIAL_EPOCH + 1
        assert self.session_id != NO_SESSION
        return response

    def fetch(self, *positions: At, **limits: Any) -> Asked:
        """Goes on with the session."""
        sent = self.request(*positions, **limits)
        if self.kind == BY_CODEC:
            outcome = self.dispatched(by_codec(sent))
        else:
            outcome = self.leader.path.handle(memoryview(sent)[4:], self.connection)
            assert outcome is not None, "the fast path has declined it"
        self.session_epoch += 1
        return Asked(outcome)

    def declined(self, sent: bytes) -> None:
        assert self.leader.path.handle(memoryview(sent)[4:], self.connection) is None

    def dispatched(self, sent: bytes) -> object:
        connection: Any = SimpleNamespace(session=self.connection)
        return self.leader.dispatch.handle(memoryview(sent)[4:], connection)


def tell(
    story: Callable[[Leader], Coroutine[Any, Any, None]], leader: Leader | None = None
) -> None:
    """Runs a story, after which the broker must be unharmed and do nothing any more."""
    leader = leader or Leader()

    async def told() -> None:
        await story(leader)
        await asyncio.sleep(60)
        leader.unharmed()
        assert leader.parked_of == {}
        assert timers() == 0
        await leader.tasks.close()

    run(told(), clock=leader.kept.clock)


def timers() -> int:
    """The timers of the event loop that still have something to do."""
    loop: Any = asyncio.get_running_loop()
    return sum(not timer.cancelled() for timer in loop._scheduled)


async def moment() -> None:
    await asyncio.sleep(A_MOMENT_S)


def opened(leader: Leader, *positions: At, **given: Any) -> Follower:
    """A follower with a session of these partitions, by default of the first two."""
    follower = Follower(leader, **given)
    follower.open(*(positions or (At(0, 0), At(1, 0))))
    return follower


# The bytes of answers


async def one_partition(leader: Leader, follower: Follower) -> list[Asked]:
    follower.open(At(0, 0))
    leader.append(b"a", b"b")
    return [follower.fetch(), follower.fetch(At(0, 2, last_epoch=0), wait_ms=0)]


async def several_partitions(leader: Leader, follower: Follower) -> list[Asked]:
    follower.open(*(At(index, 0, topic) for index in (1, 0) for topic in (1, 2)))
    for index, topic in ((0, 1), (1, 1), (1, 2)):
        leader.append(b"%d" % index * 300, index=index, topic=topic)
    # One of them without records, since it does not fit.
    named = [At(1, 0, bytes_max=10), At(0, 0, bytes_max=10), At(1, 0, topic=2)]
    return [follower.fetch(*named), follower.fetch(wait_ms=0)]


async def nothing_to_read(leader: Leader, follower: Follower) -> list[Asked]:
    leader.append(b"a")
    follower.open(At(0, 0))
    return [
        follower.fetch(At(0, 1, last_epoch=0), wait_ms=0),
        follower.fetch(wait_ms=0),
        follower.fetch(wait_ms=-5),
    ]


async def too_large_for_the_answer(leader: Leader, follower: Follower) -> list[Asked]:
    follower.open(At(0, 0), At(1, 0))
    for index in (0, 1):
        for _ in range(3):
            leader.append(bytes(1_000), index=index)
    answers = [follower.fetch(bytes_max=size) for size in (1, 2_500, 1_500, -1, 10_000)]
    return [*answers, follower.fetch(bytes_max=1 << 30)]


async def another_start_offset(leader: Leader, follower: Follower) -> list[Asked]:
    for value in (b"a", b"b", b"c"):
        leader.append(value)
    follower.open(At(0, 3, last_epoch=0))
    log = leader.replica().log
    assert log is not None
    log.advance_start(2)
    return [
        follower.fetch(At(0, 3, last_epoch=0, start_offset=2), wait_ms=0),
        follower.fetch(At(0, 1, last_epoch=0, start_offset=2)),
    ]


async def errors(leader: Leader, follower: Follower) -> list[Asked]:
    follower.open(At(0, 0), At(1, 0), At(0, 0, topic=2), At(1, 0, topic=2))
    leader.append(b"a", index=1)
    leader.append(b"b", topic=2)
    leader.kept.change(leader.replica(), leader=OTHER)
    leader.kept.change(leader.replica(1, 2), leader=OTHER)
    found = [follower.fetch()]
    leader.lead_anew(1)
    named = [
        At(0, 5, last_epoch=3),
        At(1, 7, last_epoch=0),
        At(0, 0, topic=2, leader_epoch=9),
        At(0, 0, topic=7),
        At(9, 0),
    ]
    return [*found, follower.fetch(*named), follower.fetch(At(1, 1, leader_epoch=0))]


async def a_session_that_is_too_large(leader: Leader, follower: Follower) -> list[Asked]:
    follower.open(At(0, 0))
    leader.sessions._by_broker[2]._partitions_max = 2
    found = [follower.fetch(At(1, 0), wait_ms=0), follower.fetch(At(0, 0, topic=2), wait_ms=0)]
    assert found[1].response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    return found


@pytest.mark.parametrize(
    "ask",
    [
        one_partition,
        several_partitions,
        nothing_to_read,
        too_large_for_the_answer,
        another_start_offset,
        errors,
        a_session_that_is_too_large,
    ],
    ids=lambda ask: ask.__name__,
)
def test_an_answer_that_is_given_at_once_is_byte_for_byte_the_codecs(
    ask: Callable[[Leader, Follower], Coroutine[Any, Any, list[Asked]]],
) -> None:
    found: dict[str, Any] = {}
    for kind in (FAST, BY_CODEC):

        async def story(leader: Leader, kind: str = kind) -> None:
            asked = await ask(leader, Follower(leader, kind))
            assert all(each.waited_s == 0 for each in asked)
            found[kind] = [each.frame for each in asked], measured(leader)

        tell(story, Leader(fetch_max_bytes="5000"))
    assert found[FAST] == found[BY_CODEC]


def measured(leader: Leader) -> tuple[object, ...]:
    meter = leader.metrics.request("Fetch")
    watermarks = [
        leader.replica(index, topic).high_watermark for index in (0, 1) for topic in (1, 2)
    ]
    return leader.metrics.broker.replication_bytes_out, dict(meter.errors.counts), watermarks


def test_records_that_are_there_are_sent_at_once() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        leader.append(b"a")
        leader.append(b"b", b"c", index=1)
        asked = follower.fetch()
        assert asked.told == [(1, 0, 0, [b"a"]), (1, 1, 0, [b"b", b"c"])]
        assert asked.response.session_id == follower.session_id
        # The request that began the session is the codec's.
        assert leader.metrics.request("Fetch").seconds.count == 2
        logs = [leader.replica(index).log for index in (0, 1)]
        sent = sum(log.size_bytes for log in logs if log)
        assert leader.metrics.broker.replication_bytes_out == sent
        assert leader.parked_of == {}

    tell(story)


def test_an_answer_has_no_more_bytes_than_the_broker_allows() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        for _ in range(10):
            leader.append(bytes(400))
        asked = follower.fetch(bytes_max=1 << 30)
        assert 0 < len(asked.told[0][3]) < 4
        # A minimum that can never be reached is none.
        assert not follower.fetch(At(0, 3, last_epoch=0), bytes_min=1 << 20).is_parked

    tell(story, Leader(fetch_max_bytes="1500"))


def test_a_follower_that_is_not_in_sync_is_throttled() -> None:
    async def story(leader: Leader) -> None:
        leader.throttle.set_topic("events", None)
        leader.throttle.set_rate(1_000)
        follower = opened(leader, incarnation=THIRD)
        in_sync = opened(leader)
        leader.append(bytes(1_500))
        assert len(follower.fetch(wait_ms=0).told) == 1
        asked = follower.fetch(At(0, 0))
        assert asked.is_parked
        assert len(in_sync.fetch().told) == 1
        await asyncio.sleep(1)
        assert asked.waited_s == pytest.approx(WAIT_MS / 1e3)

    tell(story, Leader(replicas=(1, 2, 3)))


# Waiting


def test_a_fetch_with_nothing_to_read_waits_for_an_append() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        asked = follower.fetch()
        await asyncio.sleep(0.2)
        assert asked.is_parked
        assert leader.parked_of == {2: asked.parked}
        leader.append(b"a", index=1)
        assert asked.is_parked, "the batches of one turn are sent together"
        await asyncio.sleep(0)
        assert asked.told == [(1, 1, 0, [b"a"])]
        assert asked.waited_s == pytest.approx(0.2)
        assert leader.parked_of == {}
        assert len(leader.kept_session().waiting) == 0
        meter = leader.metrics.request("Fetch").seconds
        assert meter.total == pytest.approx(0.2), "the time that it waited is measured"

    tell(story)


def test_two_appends_of_one_turn_come_in_one_answer() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader, At(0, 0), At(1, 0), At(0, 0, topic=2))
        asked = follower.fetch()
        await moment()
        for index, topic in ((1, 1), (0, 2), (1, 1)):
            leader.append(b"%d" % topic, index=index, topic=topic)
        await moment()
        assert asked.told == [(1, 1, 0, [b"1", b"1"]), (2, 0, 0, [b"2"])]

    tell(story)


def test_an_append_that_comes_after_the_look_is_in_the_next_answer() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        asked = follower.fetch()
        leader.append(b"a")
        # The fetch looks first.
        asyncio.get_running_loop().call_soon(lambda: leader.append(b"b", index=1))
        await moment()
        assert asked.told == [(1, 0, 0, [b"a"])]
        after = follower.fetch(At(0, 1, last_epoch=0))
        assert after.told == [(1, 0, 1, []), (1, 1, 0, [b"b"])]

    tell(story)


def test_a_high_watermark_that_moves_alone_wakes_nobody_and_is_told_with_the_next_answer() -> None:
    async def story(leader: Leader) -> None:
        leader.append(b"a")
        leader.append(b"b", index=1)
        slow = opened(leader, At(0, 0), At(1, 0), incarnation=THIRD)
        follower = opened(leader, At(0, 1, last_epoch=0), At(1, 1, last_epoch=0))
        asked = follower.fetch()
        slow.fetch(At(0, 1, last_epoch=0), wait_ms=0)
        assert leader.replica().high_watermark == 1
        await asyncio.sleep(0.1)
        assert asked.is_parked
        leader.append(b"c", index=1)
        await moment()
        assert asked.told == [(1, 0, 1, []), (1, 1, 0, [b"c"])]

    tell(story, Leader(isr=(ME, OTHER, THIRD)))


def test_a_fetch_is_answered_empty_at_its_deadline() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        for _ in range(3):
            asked = follower.fetch()
            await asyncio.sleep(WAIT_MS / 1e3 - 0.01)
            assert asked.is_parked
            await asyncio.sleep(0.02)
            assert asked.waited_s == pytest.approx(WAIT_MS / 1e3)
            assert asked.told == []
            assert asked.response.session_id == follower.session_id
            assert len(leader.kept_session().waiting) == 0

    tell(story)


@pytest.mark.parametrize("second_ms", [WAIT_MS, 100, 5_000])
def test_a_fetch_is_not_answered_by_the_deadline_of_the_one_before_it(second_ms: int) -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        first = follower.fetch()
        await asyncio.sleep(0.3)
        leader.append(b"a")
        await moment()
        assert first.told
        second = follower.fetch(At(0, 1, last_epoch=0), wait_ms=second_ms)
        await asyncio.sleep(10)
        assert second.waited_s == pytest.approx(second_ms / 1e3)
        assert [each[3] for each in second.told] == [[]], "the high watermark has moved"

    tell(story)


def test_the_deadlines_of_two_followers_are_their_own() -> None:
    async def story(leader: Leader) -> None:
        one, other = opened(leader), opened(leader, incarnation=THIRD)
        first, second = one.fetch(wait_ms=400), other.fetch(wait_ms=300)
        assert leader.parked_of == {2: first.parked, 3: second.parked}
        await asyncio.sleep(1)
        assert first.waited_s == pytest.approx(0.4)
        assert second.waited_s == pytest.approx(0.3)
        first, second = one.fetch(), other.fetch()
        leader.append(b"a")
        await moment()
        assert first.told == second.told == [(1, 0, 0, [b"a"])]

    tell(story)


def test_a_fetch_waits_on_until_there_are_enough_bytes() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        asked = follower.fetch(bytes_min=1_000)
        for number in range(3):
            leader.append(bytes(200), index=number % 2)
            await moment()
            assert asked.is_parked
        # They look again for another reason, and go on waiting for what is missing then.
        leader.replica().wake_all()
        await moment()
        assert asked.is_parked
        leader.append(bytes(100))
        await moment()
        assert asked.is_parked
        leader.append(bytes(200))
        await moment()
        assert [len(each[3]) for each in asked.told] == [4, 1]

    tell(story)


def test_what_is_there_counts_towards_the_minimum() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        leader.append(bytes(700))
        asked = follower.fetch(bytes_min=1_000)
        await moment()
        assert asked.is_parked
        leader.append(bytes(300), index=1)
        await moment()
        assert len(asked.told) == 2

    tell(story)


def test_a_wake_up_without_enough_bytes_ends_at_the_deadline_with_what_is_there() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        asked = follower.fetch(bytes_min=10_000)
        await asyncio.sleep(0.1)
        leader.append(b"a")
        leader.replica(1).wake_all()
        await asyncio.sleep(0.3)
        assert asked.is_parked
        await asyncio.sleep(1)
        assert asked.waited_s == pytest.approx(WAIT_MS / 1e3)
        assert asked.told == [(1, 0, 0, [b"a"])]

    tell(story)


def test_a_wake_up_for_what_others_have_taken_goes_on_waiting() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        asked = follower.fetch()
        # The log is cut before the fetch looks.
        leader.append(b"a")
        log = leader.replica().log
        assert log is not None
        log.truncate(0)
        await moment()
        assert asked.is_parked
        leader.append(b"b")
        await moment()
        assert asked.told == [(1, 0, 0, [b"b"])]

    tell(story)


# Progress


def test_a_fetch_commits_what_the_follower_has_and_releases_who_waits_for_it() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        waits = []
        for index in (0, 1):
            result = leader.append(b"a", index=index)
            append = Unacknowledged(leader.replica(index), result)
            waits.append(CommitWait([append], 1_000))
        assert len(follower.fetch().told) == 2
        assert [wait.future.done() for wait in waits] == [False, False]
        asked = follower.fetch(At(0, 1, last_epoch=0), At(1, 1, last_epoch=0), bytes_min=10)
        assert asked.is_parked, "that it has them is known before it is answered"
        assert [wait.future.done() for wait in waits] == [True, True]
        assert [wait.errors for wait in waits] == [[None], [None]]
        assert [leader.replica(index).high_watermark for index in (0, 1)] == [1, 1]

    tell(story)


def test_a_follower_learns_of_a_high_watermark_that_its_own_fetch_moves() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        leader.append(b"a")
        assert follower.fetch().told == [(1, 0, 0, [b"a"])]
        assert follower.fetch(At(0, 1, last_epoch=0), wait_ms=0).told == [(1, 0, 1, [])]
        assert follower.fetch(wait_ms=0).told == []

    tell(story)


# Disconnects and other connections


def test_a_follower_that_disconnects_leaves_nothing_parked() -> None:
    async def story(leader: Leader) -> None:
        before = timers()
        follower = opened(leader)
        asked = follower.fetch()
        session = leader.kept_session()
        assert (len(session.waiting), timers()) == (1, before + 1)
        asked.disconnect()
        assert (len(session.waiting), timers()) == (0, before)
        assert leader.parked_of == {}
        watchers = list(leader.replica().waiting_followers.watchers)
        assert [type(each).__name__ for each in watchers] == ["SessionItem"]
        leader.append(b"a")
        leader.replica().wake_all()
        await asyncio.sleep(2)
        assert asked.frame is None
        del asked
        gc.collect()
        assert not [each for each in gc.get_objects() if isinstance(each, ParkedFetch)]
        # The session goes on, if the follower does.
        assert follower.fetch().told == [(1, 0, 0, [b"a"])]

    tell(story)


@pytest.mark.parametrize("is_answered_first", [False, True])
def test_a_follower_that_disconnects_after_a_wake_up_harms_nothing(is_answered_first: bool) -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        asked = follower.fetch()
        progress = leader.replica().partition.followers[2]
        leader.append(b"a")
        if is_answered_first:
            await moment()
        asked.disconnect()
        await moment()
        is_read = leader.replica().partition.followers[2] is not progress
        assert is_read == is_answered_first, "nothing is read for nobody"
        assert (asked.frame is not None) == is_answered_first
        assert len(leader.kept_session().waiting) == 0
        after = follower.fetch(At(0, 1, last_epoch=0))
        await asyncio.sleep(0.2)
        leader.append(b"b")
        await moment()
        assert after.told[0][3] == [b"b"]

    tell(story)


def test_a_second_connection_with_the_same_session_answers_the_first() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        first = follower.fetch(wait_ms=10_000)
        await asyncio.sleep(0.1)
        second = follower.fetch(wait_ms=400)
        await moment()
        assert first.told == []
        assert second.is_parked
        # The broker learns late that the first connection is gone.
        first.disconnect()
        assert leader.parked_of == {2: second.parked}
        await asyncio.sleep(1)
        assert second.waited_s == pytest.approx(0.4)
        third = follower.fetch(wait_ms=400)
        leader.append(b"a")
        await moment()
        assert third.told == [(1, 0, 0, [b"a"])]

    tell(story)


def test_an_append_goes_to_the_second_connection_if_the_first_is_gone() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        first = follower.fetch()
        second = follower.fetch()
        first.disconnect()
        await moment()
        assert first.frame is None
        assert len(leader.kept_session().waiting) == 1
        leader.append(b"a")
        await moment()
        assert second.told == [(1, 0, 0, [b"a"])]

    tell(story)


def test_a_session_that_is_replaced_answers_its_parked_fetch() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        asked, old_id = follower.fetch(wait_ms=10_000), follower.session_id
        await moment()
        again = opened(leader)
        await moment()
        assert (asked.told, asked.response.session_id) == ([], old_id)
        assert again.session_id != old_id
        parked = again.fetch()
        leader.append(b"a")
        await moment()
        assert parked.told == [(1, 0, 0, [b"a"])]

    tell(story)


def test_the_end_of_a_broker_answers_its_parked_fetch_and_its_session_is_over() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        asked = follower.fetch(wait_ms=10_000)
        leader.set_broker(OTHER, BrokerState.GONE)
        await moment()
        assert asked.told == []
        follower.declined(follower.request())
        follower.incarnation = Incarnation(2, 21)
        leader.set_broker(follower.incarnation)
        follower.declined(follower.request())

    tell(story)


# Errors


def test_a_leader_that_moves_while_a_fetch_is_parked_is_told() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader, At(0, 0), At(1, 0), At(0, 0, topic=2))
        asked = follower.fetch()
        await moment()
        leader.append(b"a", index=1)
        leader.kept.change(leader.replica(), leader=THIRD)
        leader.append(b"b", topic=2)
        await moment()
        codes = asked.codes
        assert codes == {(1, 0): ErrorCode.NOT_LEADER_OR_FOLLOWER, (1, 1): 0, (2, 0): 0}
        topics = asked.response.responses
        assert values(topics[0].partitions[0].records) == [b"a"]
        assert values(topics[1].partitions[0].records) == [b"b"]
        moved = topics[0].partitions[1].current_leader
        assert (moved.leader_id, moved.leader_epoch) == (3, leader.replica().partition.leader_epoch)
        assert [each.host for each in asked.response.node_endpoints] == ["host3"]
        logs = [leader.replica(1).log, leader.replica(0, 2).log]
        sent = sum(log.size_bytes for log in logs if log)
        assert leader.metrics.broker.replication_bytes_out == sent
        assert leader.metrics.request("Fetch").seconds.count == 2

    tell(story, Leader(isr=(ME, OTHER, THIRD)))


def test_a_topic_that_is_deleted_while_a_fetch_is_parked_is_unknown() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader, At(0, 0), At(0, 0, topic=2))
        leader.append(b"x", topic=2)
        asked = follower.fetch(At(0, 0, topic=2), bytes_min=1_000)
        leader.kept.delete(leader.replica())
        await moment()
        assert asked.codes == {(1, 0): ErrorCode.UNKNOWN_TOPIC_ID, (2, 0): 0}
        assert values(asked.response.responses[0].partitions[0].records) == [b"x"]

    tell(story)


def test_a_follower_whose_log_diverges_is_told_where_and_makes_no_progress() -> None:
    async def story(leader: Leader) -> None:
        leader.append(b"a", b"b")
        follower = opened(leader)
        leader.append(b"c", index=1)
        asked = follower.fetch(At(0, 5, last_epoch=0))
        first, second = asked.response.responses[0].partitions
        diverging = first.diverging_epoch
        assert (diverging.epoch, diverging.end_offset) == (0, 2)
        assert (first.error_code, len(first.records)) == (0, 0)
        assert values(second.records) == [b"c"]
        assert leader.replica().high_watermark == 0

    tell(story)


def test_an_unknown_topic_id_has_its_error_and_others_have_their_records() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        leader.append(b"a", index=1)
        asked = follower.fetch(At(0, 0, topic=9), At(7, 0))
        assert asked.codes == {
            (9, 0): ErrorCode.UNKNOWN_TOPIC_ID,
            (1, 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            (1, 1): 0,
        }
        assert [values(each.records) for each in asked.response.responses[0].partitions] == [[b"a"]]

    tell(story)


def test_a_fault_of_our_own_is_reported() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        asked = follower.fetch()

        def fail(*_: object) -> None:
            raise RuntimeError("our own fault")

        asked.parked.answering.fetch._find = fail  # type: ignore[assignment]
        leader.append(b"a")
        await moment()
        (fault,) = leader.faults
        assert str(fault) == "our own fault"
        leader.faults.clear()
        asked.disconnect()

    tell(story)


# Requests that are left to the codec


class OnlyThese:
    """An authorizer that allows some operations on some kinds of resources."""

    def __init__(self, *allowed: tuple[AclOperation, AclResource]) -> None:
        self._allowed = allowed

    def allows(self, session: Session, operation: AclOperation, resource: Any) -> bool:
        return (operation, resource.kind) in self._allowed

    def visibility(self, session: Session) -> None:
        return None


class Quota(Unlimited):
    """A quota that is never used up."""


def unknown_session(leader: Leader, follower: Follower) -> dict[str, Any]:
    return {"session_id": follower.session_id + 1}


def earlier_epoch(leader: Leader, follower: Follower) -> dict[str, Any]:
    return {"session_epoch": follower.session_epoch - 1}


def later_epoch(leader: Leader, follower: Follower) -> dict[str, Any]:
    return {"session_epoch": follower.session_epoch + 1}


def wrong_broker_epoch(leader: Leader, follower: Follower) -> dict[str, Any]:
    return {"replica_state": ReplicaState(replica_id=2, replica_epoch=19)}


def later_broker_epoch(leader: Leader, follower: Follower) -> dict[str, Any]:
    return {"replica_state": ReplicaState(replica_id=2, replica_epoch=21)}


def unknown_broker(leader: Leader, follower: Follower) -> dict[str, Any]:
    return {"replica_state": ReplicaState(replica_id=4, replica_epoch=20)}


def broker_without_a_session(leader: Leader, follower: Follower) -> dict[str, Any]:
    return {"replica_state": ReplicaState(replica_id=3, replica_epoch=30)}


def broker_that_is_gone(leader: Leader, follower: Follower) -> dict[str, Any]:
    # Its session is still there, so that it is not the reason.
    leader.kept.commit(replace(leader.kept.image.brokers[OTHER.broker_id], state=BrokerState.GONE))
    return {}


def no_cluster_action(leader: Leader, follower: Follower) -> dict[str, Any]:
    leader.services.authorizer = OnlyThese((AclOperation.READ, AclResource.TOPIC))
    return {}


Change = Callable[[Leader, Follower], dict[str, Any]]
REFUSALS: dict[Change, ErrorCode] = {
    unknown_session: ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    earlier_epoch: ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    later_epoch: ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    wrong_broker_epoch: ErrorCode.STALE_BROKER_EPOCH,
    later_broker_epoch: ErrorCode.STALE_BROKER_EPOCH,
    unknown_broker: ErrorCode.STALE_BROKER_EPOCH,
    broker_without_a_session: ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    broker_that_is_gone: ErrorCode.STALE_BROKER_EPOCH,
    no_cluster_action: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
}


def state_of(leader: Leader) -> object:
    """All that a fetch of broker 2 could change."""
    session = leader.kept_session()
    replicas = [leader.replica(index, topic) for topic in (1, 2) for index in (0, 1)]
    return (
        session.epoch,
        session.used_ns,
        [(item.topic, item.asked.partition, item.asked.fetch_offset) for item in session.dirty],
        len(session),
        len(session.waiting),
        [(each.high_watermark, dict(each.partition.followers)) for each in replicas],
        leader.metrics.broker.replication_bytes_out,
        dict(leader.metrics.request("Fetch").errors.counts),
        leader.metrics.request("Fetch").seconds.count,
        set(leader.sessions._by_broker),
        leader.parked_of,
        timers(),
    )


@pytest.mark.parametrize("change", REFUSALS, ids=lambda change: change.__name__)
def test_a_fetch_that_is_refused_changes_nothing_and_the_codec_has_the_error(
    change: Change,
) -> None:
    frames = []
    for kind in (FAST, BY_CODEC):

        async def story(leader: Leader, kind: str = kind) -> None:
            follower = opened(leader)
            leader.append(b"a")
            follower.fetch()
            fields = change(leader, follower)
            positions = [At(0, 1, last_epoch=0), At(1, 0, topic=2)]
            sent = follower.request(*positions, **fields)
            before = state_of(leader)
            if kind == FAST:
                follower.declined(sent)
                assert state_of(leader) == before
            asked = Asked(follower.dispatched(sent if kind == FAST else by_codec(sent)))
            assert asked.waited_s == 0
            assert asked.response.error_code == REFUSALS[change]
            assert leader.replica().high_watermark == 0
            assert leader.metrics.request("Fetch").errors.counts == {REFUSALS[change].name: 1}
            frames.append(asked.frame)

        tell(story)
    assert frames[0] == frames[1]


def forgotten_topics(leader: Leader, follower: Follower) -> dict[str, Any]:
    forgotten = ForgottenTopic(topic_id=topic_id(1), partitions=(1,))
    return {"forgotten_topics_data": (forgotten,)}


def another_version(leader: Leader, follower: Follower) -> dict[str, Any]:
    return {"version": 17}


def client_with_a_quota(leader: Leader, follower: Follower) -> dict[str, Any]:
    follower.connection.quota = Quota()
    return {}


def read_committed(leader: Leader, follower: Follower) -> dict[str, Any]:
    return {"isolation_level": 1}


@pytest.mark.parametrize(
    "change",
    [forgotten_topics, another_version, client_with_a_quota, read_committed],
    ids=lambda change: change.__name__,
)
def test_a_fetch_that_is_not_ordinary_is_left_to_the_codec_which_answers_it(change: Change) -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        leader.append(b"a")
        leader.append(b"b", index=1)
        leader.append(b"c", topic=2)
        fields = change(leader, follower)
        sent = follower.request(At(0, 1, last_epoch=0), At(0, 0, topic=2), **fields)
        before = state_of(leader)
        follower.declined(sent)
        assert state_of(leader) == before
        asked = Asked(follower.dispatched(sent))
        answered = [(1, 0, 1, []), (2, 0, 0, [b"c"])]
        if change is not forgotten_topics:
            answered.insert(0, (1, 1, 0, [b"b"]))
        told = decode_response(memoryview(asked.frame or b"")[4:], FETCH, fields.get("version", 18))
        found = {
            (topic.topic_id, each.partition_index): (each.high_watermark, values(each.records))
            for topic in told.responses
            for each in topic.partitions
        }
        assert found == {
            (topic_id(topic), index): (watermark, sent)
            for topic, index, watermark, sent in answered
        }

    tell(story)


def test_a_follower_that_may_act_on_the_cluster_needs_no_right_to_a_topic() -> None:
    async def story(leader: Leader) -> None:
        leader.services.authorizer = OnlyThese((AclOperation.CLUSTER_ACTION, AclResource.CLUSTER))
        follower = opened(leader)
        leader.append(b"a")
        assert follower.fetch().told == [(1, 0, 0, [b"a"])]

    tell(story)


# Cold partitions


def chilled(leader: Leader, *indexes: int) -> None:
    """The follower of these partitions is far behind, and nothing of them is in the page cache."""
    for index in indexes:
        for number in range(COLD_COUNT):
            leader.append(b"%06d" % number + bytes(1_500), index=index)
    for index in indexes:
        leader.kept.disk.chill(f"*events-{index}*")


def numbers(told: Any) -> list[int]:
    """The first number of each partition."""
    return [int(found[0][:6]) for _, _, _, found in told]


def test_a_cold_partition_is_answered_when_it_is_warm_and_others_need_not_wait() -> None:
    async def story(leader: Leader) -> None:
        follower, third = opened(leader), opened(leader, At(1, 0, topic=2), incarnation=THIRD)
        waiting = third.fetch()
        leader.append(b"x", index=1, topic=2)
        chilled(leader, 0)
        leader.threads.hold()
        asked = follower.fetch(At(0, 10, last_epoch=0, bytes_max=5_000))
        await moment()
        assert asked.is_parked
        assert leader.threads.waiting == 1
        assert waiting.told == [(2, 1, 0, [b"x"])]
        leader.append(b"a", topic=2)
        fresh = opened(leader, At(0, 0, topic=2), incarnation=THIRD)
        leader.append(b"b", topic=2)
        assert [each[3] for each in fresh.fetch().told] == [[b"a", b"b"]]
        await asyncio.sleep(5)
        assert asked.is_parked
        leader.threads.release()
        await asyncio.sleep(1)
        assert numbers(asked.told) == [10]
        assert leader.kept.disk.pages_waited_for == 0
        assert leader.replica().partition.followers[2].end_offset == 10

    tell(story, Leader(rules=COLD_RULES, replicas=(1, 2, 3)))


def behind(leader: Leader) -> tuple[Follower, Asked]:
    """A parked fetch that is woken by a cold partition, after the threads have stopped.

    The follower misses so many bytes that it waits although it is far behind in one partition.
    """
    chilled(leader, 0)
    follower = opened(leader, At(1, 0), At(0, COLD_COUNT, last_epoch=0))
    leader.threads.hold()
    asked = follower.fetch(wait_ms=2_000)
    assert asked.is_parked
    for number in range(COLD_COUNT):
        leader.append(b"%06d" % (COLD_COUNT + number) + bytes(1_500))
    leader.kept.disk.chill("*events-0*")
    return follower, asked


def test_a_partition_that_is_cold_after_a_wake_up_is_answered_when_it_is_warm() -> None:
    async def story(leader: Leader) -> None:
        _, asked = behind(leader)
        await asyncio.sleep(0.1)
        assert asked.is_parked
        assert leader.threads.waiting == 1
        # What wakes it meanwhile is in the answer, and has nobody read twice.
        leader.append(b"x" * 10, index=1)
        await asyncio.sleep(0.1)
        assert asked.is_parked
        assert leader.threads.waiting == 1
        leader.threads.release()
        await asyncio.sleep(0.5)
        told = {index: found for _, index, _, found in asked.told}
        assert told[1] == [b"x" * 10]
        assert told[0][0] == b"%06d" % COLD_COUNT + bytes(1_500)
        assert leader.kept.disk.pages_waited_for == 0
        assert len(leader.kept_session().waiting) == 0

    tell(story, Leader(rules=COLD_RULES))


def test_a_deadline_that_passes_while_a_partition_is_warmed_is_kept_right_after() -> None:
    async def story(leader: Leader) -> None:
        follower, asked = behind(leader)
        await asyncio.sleep(3)
        assert asked.is_parked
        leader.threads.release()
        await asyncio.sleep(0.5)
        assert asked.told[0][3][0] == b"%06d" % COLD_COUNT + bytes(1_500)
        after = follower.fetch(At(0, 2 * COLD_COUNT, last_epoch=0))
        await asyncio.sleep(1)
        assert after.waited_s == pytest.approx(WAIT_MS / 1e3)

    tell(story, Leader(rules=COLD_RULES))


def test_a_fetch_that_is_not_enough_after_it_was_warmed_waits_on() -> None:
    async def story(leader: Leader) -> None:
        chilled(leader, 0)
        follower = opened(leader, At(1, 0), At(0, COLD_COUNT, last_epoch=0))
        asked = follower.fetch(bytes_min=1_000_000, wait_ms=2_000)
        for _ in range(COLD_COUNT):
            leader.append(bytes(1_500))
        leader.kept.disk.chill("*events-0*")
        leader.replica(1).wake_all()
        await asyncio.sleep(0.5)
        assert asked.is_parked
        leader.append(bytes(1_000_000), index=1)
        await asyncio.sleep(0.5)
        assert len(asked.told) == 2

    tell(story, Leader(rules=COLD_RULES))


@pytest.mark.parametrize("is_released_first", [False, True])
def test_a_follower_that_disconnects_while_its_partition_is_warmed_harms_nothing(
    is_released_first: bool,
) -> None:
    async def story(leader: Leader) -> None:
        follower, asked = behind(leader)
        await asyncio.sleep(0.1)
        if is_released_first:
            leader.threads.release()
        asked.disconnect()
        leader.threads.release()
        await asyncio.sleep(1)
        assert leader.metrics.broker.replication_bytes_out == 0
        assert asked.frame is None
        assert len(leader.kept_session().waiting) == 0
        assert leader.parked_of == {}
        assert not leader.tasks._running
        after = follower.fetch(At(0, 2 * COLD_COUNT, last_epoch=0))
        leader.append(b"a")
        await moment()
        assert after.told[0][3] == [b"a"]

    tell(story, Leader(rules=COLD_RULES))


def test_a_follower_that_disconnects_while_its_first_read_is_cold_harms_nothing() -> None:
    async def story(leader: Leader) -> None:
        follower = opened(leader)
        chilled(leader, 0)
        leader.threads.hold()
        asked = follower.fetch(At(0, 10, last_epoch=0))
        await moment()
        asked.disconnect()
        await moment()
        leader.threads.release()
        await asyncio.sleep(1)
        assert asked.frame is None
        warm = follower.fetch(At(0, COLD_COUNT - 1, last_epoch=0))
        assert numbers(warm.told) == [COLD_COUNT - 1]

    tell(story, Leader(rules=COLD_RULES))


def test_a_session_that_is_replaced_while_a_partition_is_warmed_answers_its_fetch() -> None:
    async def story(leader: Leader) -> None:
        _, asked = behind(leader)
        await asyncio.sleep(0.1)
        leader.sessions._close(OTHER.broker_id)
        leader.threads.release()
        await asyncio.sleep(0.5)
        assert asked.told == []

    tell(story, Leader(rules=COLD_RULES))


def test_a_disk_that_cannot_read_a_cold_partition_is_the_error_of_that_partition() -> None:
    async def story(leader: Leader) -> None:
        _, asked = behind(leader)
        await moment()
        leader.kept.disk.faults.fail_next_read("*events-0*")
        leader.append(b"a", index=1)
        leader.threads.release()
        await asyncio.sleep(0.5)
        assert asked.codes == {(1, 0): ErrorCode.KAFKA_STORAGE_ERROR, (1, 1): 0}

    tell(story, Leader(rules=COLD_RULES))


# On connections


class Place:
    """The connections of a leader, on the listener of the brokers and on that of the clients."""

    def __init__(self, leader: Leader) -> None:
        self.leader = leader
        self.network = SimNetwork()
        self.connections = Connections(
            clock=leader.kept.clock,
            threads=leader.threads,
            limits=LIMITS,
            metrics=leader.metrics,
            logger=Notes(),
        )

    async def open(self) -> None:
        for name, port in PORTS.items():
            listener = await self.network.host("broker").bind("0.0.0.0", port)
            plaintext = SecurityProtocol.PLAINTEXT
            await self.connections.accept(listener, self.leader.dispatch, name, plaintext)

    async def connect(self, listener: str = BROKERS) -> Client:
        client = await self.network.host("host2").connect(Client, "broker", PORTS[listener])
        return cast("Client", client)

    @property
    def parked(self) -> int:
        return sum(
            slot.parked is not None
            for slot in self.leader.dispatch._replica_fetches._slots.values()
        )


LIMITS = ConnectionLimits(
    frame_bytes_max=4 << 20,
    queued_bytes_max=8 << 20,
    unsent_bytes_max=256 << 20,
    connections_max=100,
    connections_max_per_ip=100,
    idle_ms_max=600_000,
)
PORTS = {BROKERS: 9093, CLIENTS: 9092}
HELLO = encoded(ApiVersionsRequest(), 0)


def connected(story: Callable[[Place], Coroutine[Any, Any, None]]) -> None:
    async def told(leader: Leader) -> None:
        place = Place(leader)
        await place.open()
        await story(place)
        place.connections.end_all("the test is over")
        await asyncio.sleep(1)
        assert place.parked == 0

    tell(told)


def response_to(frame: bytes) -> Any:
    return decode_response(memoryview(frame), FETCH, VERSION)


def test_a_response_behind_a_parked_fetch_waits_for_its_turn() -> None:
    async def story(place: Place) -> None:
        follower, client = opened(place.leader), await place.connect()
        await client.send_bytes(follower.request() + HELLO)
        coming = asyncio.create_task(client.next_frame())
        await asyncio.sleep(0.2)
        assert not coming.done()
        assert place.parked == 1
        place.leader.append(b"a")
        fetched = response_to(await coming)
        assert values(fetched.responses[0].partitions[0].records) == [b"a"]
        assert (await client.next_frame())[:4] == (7).to_bytes(4, "big")
        # And the next fetch, which arrives while the one before it is parked.
        follower.session_epoch += 1
        first = follower.request(At(0, 1, last_epoch=0))
        follower.session_epoch += 1
        await client.send_bytes(first + follower.request(wait_ms=100))
        # It also tells of the high watermark, which has moved.
        assert response_to(await client.next_frame()).responses[0].partitions[0].high_watermark == 1
        assert response_to(await client.next_frame()).responses == ()

    connected(story)


def test_a_connection_that_is_lost_leaves_nothing_parked() -> None:
    async def story(place: Place) -> None:
        follower, client = opened(place.leader), await place.connect()
        await client.send_bytes(follower.request(wait_ms=100_000))
        await asyncio.sleep(0.2)
        assert place.parked == 1
        client.close()
        await asyncio.sleep(0.2)
        assert place.parked == 0
        assert len(place.leader.kept_session().waiting) == 0
        assert timers() == 0
        place.leader.append(b"a")

    connected(story)


def test_a_fetch_on_the_listener_of_clients_never_takes_the_fast_path() -> None:
    async def story(place: Place) -> None:
        follower, client = opened(place.leader), await place.connect(CLIENTS)
        place.leader.append(b"a")
        sent = follower.request(At(0, 1, last_epoch=0))
        refused = response_to(await client.exchange(sent))
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert place.parked == 0
        assert place.leader.replica().high_watermark == 0
        assert not place.leader.replica().partition.followers[2].end_offset
        # The session has not been used by it.
        broker = await place.connect()
        response_to(await broker.exchange(sent))
        assert place.leader.replica().high_watermark == 1

    connected(story)


# Both ways, whatever happens


class Story:
    """What happens to a leader and its follower, as the seed decides."""

    def __init__(self, leader: Leader, kind: str, seed: int) -> None:
        self.leader = leader
        self.follower = Follower(leader, kind)
        self.entropy = SimEntropy(seed)
        self.ends: dict[tuple[int, int], int] = {}
        self.epochs: dict[tuple[int, int], int] = {}
        self.asked: Asked | None = None
        self.seen: list[object] = []

    async def run(self) -> list[object]:
        self.begin()
        steps = [*[self.append] * 3, *[self.fetch] * 2]
        steps += [self.move, self.trim, self.disconnect, self.begin]
        for _ in range(60):
            step = self.entropy.pick(steps)
            if step == self.disconnect:
                # Else it depends on the turn whether it is answered before.
                await moment()
            step()
            if self.entropy.chance(0.7):
                await asyncio.sleep(self.entropy.pick([0.001, 0.05, 0.3]))
                self.note()
        await asyncio.sleep(2)
        self.note()
        keys = [(topic, index) for topic in (1, 2) for index in (0, 1)]
        self.seen.append(
            [self.leader.replica(index, topic).high_watermark for topic, index in keys]
        )
        self.seen.append(self.leader.metrics.broker.replication_bytes_out)
        return self.seen

    def begin(self) -> None:
        """A new session."""
        self.note()
        keys = [(topic, index) for topic in (1, 2) for index in (0, 1)]
        response = self.follower.open(*[self.position(*key) for key in keys])
        self.learn(response)
        if self.asked is not None and self.entropy.chance(0.5):
            self.disconnect()

    def position(self, topic: int, index: int) -> At:
        key = topic, index
        known = self.epochs.get(key, -1)
        current = self.leader.replica(index, topic).partition.leader_epoch
        if self.entropy.chance(0.05):
            current -= 1
        end = self.ends.get(key, 0) + 3 * self.entropy.chance(0.05)
        return At(index, end, topic, known, current, bytes_max=self.entropy.pick([200, 1 << 20]))

    def append(self) -> None:
        topic, index = self.entropy.between(1, 2), self.entropy.below(2)
        if self.leader.replica(index, topic).partition.is_leader:
            self.leader.append(bytes(self.entropy.between(1, 400)), index=index, topic=topic)

    def fetch(self) -> None:
        self.note()
        if self.asked is not None:
            return
        keys = [(topic, index) for topic in (1, 2) for index in (0, 1)]
        named = [self.position(*key) for key in keys if self.entropy.chance(0.7)]
        self.asked = self.follower.fetch(
            *named,
            wait_ms=self.entropy.pick([0, 100, 500]),
            bytes_min=self.entropy.pick([1, 1, 300, 1_000]),
            bytes_max=self.entropy.pick([500, 1 << 20]),
        )
        self.note()

    def move(self) -> None:
        topic, index = self.entropy.between(1, 2), self.entropy.below(2)
        replica = self.leader.replica(index, topic)
        self.leader.kept.change(replica, leader=OTHER if replica.partition.is_leader else ME)

    def trim(self) -> None:
        log = self.leader.replica().log
        if log is not None and log.end_offset > log.start_offset:
            log.advance_start(log.start_offset + 1)

    def disconnect(self) -> None:
        self.note()
        if self.asked is not None:
            self.asked.disconnect()
            self.asked = None
            self.seen.append("disconnected")

    def note(self) -> None:
        if self.asked is not None and self.asked.frame is not None:
            times_s = [round(each, 3) for each in (self.asked.asked_s, self.asked.waited_s or 0)]
            self.seen.append((*times_s, self.asked.frame))
            asked, self.asked = self.asked, None
            self.learn(asked.response)

    def learn(self, response: Any) -> None:
        """The follower appends what it was sent, or cuts what it must."""
        for topic in response.responses:
            for each in topic.partitions:
                key = int.from_bytes(topic.topic_id, "big"), each.partition_index
                stored = memoryview(each.records or b"")
                if each.diverging_epoch is not None:
                    self.ends[key] = min(self.ends.get(key, 0), each.diverging_epoch.end_offset)
                elif each.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    self.ends[key] = each.log_start_offset
                elif len(stored):
                    header, epoch = read_header(stored), int.from_bytes(stored[12:16], "big")
                    self.ends[key], self.epochs[key] = header.base_offset + 1, epoch


@pytest.mark.parametrize("seed", range(40))
def test_both_ways_tell_a_follower_the_same_at_the_same_time(seed: int) -> None:
    seen: dict[str, list[object]] = {}
    for kind in (FAST, BY_CODEC):

        async def story(leader: Leader, kind: str = kind) -> None:
            seen[kind] = await Story(leader, kind, seed).run()

        tell(story)
    assert seen[FAST] == seen[BY_CODEC]
    assert any(isinstance(each, tuple) for each in seen[FAST])
