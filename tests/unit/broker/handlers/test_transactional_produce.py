"""Produce in transactions: verification by the coordinator, guards, and errors as Kafka's."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.requests.services import Services
from ottla.errors import ErrorCode
from ottla.protocol.batch import MarkerKind
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, RequestedTopic
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.transaction_marker import TransactionMarker
from ottla.replication.replica import Replica
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.sessions import begun, services_of
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker
from tests.support.broker.transactional_producer import (
    ForgingProducer,
    ScriptedCoordinator,
    ask_produce,
)
from tests.support.broker.transactional_requests import seen

NONE = ErrorCode.NONE
# Versions of Produce: before KIP-890 producers add partitions themselves.
BY_CLIENT, BY_LEADER = 11, 12
BOTH = pytest.mark.parametrize("version", [BY_CLIENT, BY_LEADER])


async def begin(client: Client, version: int = BY_CLIENT) -> ForgingProducer:
    """A topic of two partitions, and a producer that has not begun a transaction."""
    await create(client, new_topic("events", 2))
    producer = ForgingProducer(client, version=version)
    await producer.begin()
    return producer


# With the broker's own coordinator


@BOTH
@pytest.mark.parametrize("is_native", [True, False])
def test_records_are_read_once_their_transaction_is_committed(
    version: int, is_native: bool
) -> None:
    async def story(client: Client) -> None:
        producer = await begin(client, version)
        for number in range(3):
            if version == BY_CLIENT:
                assert await producer.add("events", 0, 1) == NONE
            for partition, value in ((0, b"a"), (1, b"b"), (0, b"c")):
                sent = await producer.produce(value, partition, is_native=is_native)
                assert (sent.error_code, sent.error_message) == (NONE, None)
            assert await seen(client, "events") == [b"a", b"c"] * number
            assert await producer.end() == NONE
            assert await seen(client, "events") == [b"a", b"c"] * (number + 1)
            assert await seen(client, "events", partition=1) == [b"b"] * (number + 1)

    with_broker(story)


@BOTH
def test_records_of_an_aborted_transaction_are_never_read(version: int) -> None:
    async def story(client: Client) -> None:
        producer = await begin(client, version)
        for committed in (False, True, False):
            if version == BY_CLIENT:
                assert await producer.add("events", 0) == NONE
            assert (await producer.produce(str(committed).encode())).error_code == NONE
            assert await producer.end(committed=committed) == NONE
        assert await seen(client, "events") == [b"True"]

    with_broker(story)


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize(
    ("version", "code"),
    [
        (3, ErrorCode.INVALID_TXN_STATE),
        (10, ErrorCode.INVALID_TXN_STATE),
        (11, ErrorCode.TRANSACTION_ABORTABLE),
    ],
)
def test_a_partition_that_was_not_added_is_refused(
    version: int, code: ErrorCode, is_native: bool
) -> None:
    async def story(client: Client) -> None:
        producer = await begin(client)
        producer.produce_version = version
        assert await producer.add("events", 1) == NONE
        sent = await producer.produce(b"a", 0, is_native=is_native or version < 9)
        assert (sent.error_code, sent.base_offset, sent.log_start_offset) == (code, -1, -1)
        if version >= 8:
            assert "TRANSACTION_ABORTABLE" in sent.error_message
        assert (await producer.produce(b"a", 1)).error_code == NONE
        assert await read(client) == []

    with_broker(story)


async def read(client: Client, partition: int = 0) -> list[bytes | None]:
    return values(only(await client.ask(fetch("events", wanted(partition)), 12)).records)


@BOTH
def test_forged_producers_are_refused(version: int) -> None:
    async def story(client: Client) -> None:
        producer = await begin(client, version)
        if version == BY_CLIENT:
            assert await producer.add("events", 0) == NONE
        for fields, code in [
            ({"producer_id": producer.producer_id + 1}, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
            ({"producer_epoch": 32_767}, ErrorCode.INVALID_PRODUCER_EPOCH),
            ({"producer_epoch": producer.epoch + 1}, ErrorCode.INVALID_PRODUCER_EPOCH),
        ]:
            sent = await producer.produce(b"a", **fields)
            assert sent.error_code == code
        stranger = ForgingProducer(client, "never initialized", version=version)
        stranger.producer_id, stranger.epoch = producer.producer_id, producer.epoch
        sent = await stranger.produce(b"a")
        assert sent.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert (await producer.produce(b"b")).error_code == NONE
        assert await producer.end() == NONE
        assert await seen(client, "events") == [b"b"]

    with_broker(story)


@BOTH
def test_a_fenced_producer_is_refused(version: int) -> None:
    async def story(client: Client) -> None:
        old = await begin(client, version)
        if version == BY_CLIENT:
            assert await old.add("events", 0, 1) == NONE
        assert (await old.produce(b"a")).error_code == NONE
        new = ForgingProducer(client, version=version)
        await new.begin()
        for partition in (0, 1):
            sent = await old.produce(b"b", partition)
            assert sent.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await seen(client, "events") == [], "the new producer has aborted it"

    with_broker(story)


@pytest.mark.parametrize("is_native", [True, False])
def test_a_request_with_batches_of_two_producers_is_refused_as_a_whole(is_native: bool) -> None:
    async def story(client: Client) -> None:
        producer = await begin(client)
        assert await producer.add("events", 0, 1) == NONE
        batches = producer.batch(b"a", 0), producer.batch(b"b", 0, producer_epoch=7)
        request = produce("events", *batches, transactional_id="t")
        if is_native:
            response = await client.ask(request, 9)
            for result in response.responses[0].partition_responses:
                assert result.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        plain = produce("events", batches[0], batch(b"plain"), transactional_id="t")
        response = await client.ask(plain, 9)
        for result in response.responses[0].partition_responses:
            assert result.error_code == NONE

    with_broker(story)


def test_a_repeated_batch_gets_its_old_offset_also_after_its_transaction() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client)
        assert await producer.add("events", 0) == NONE
        await producer.produce(b"a")
        first = await producer.produce(b"b")
        for _ in range(2):
            again = await producer.produce(b"b", sequence=1)
            assert (again.error_code, again.base_offset) == (NONE, first.base_offset)
            await producer.end()
        assert await seen(client, "events") == [b"a", b"b"]

    with_broker(story)


def test_a_batch_that_comes_late_into_the_next_transaction_is_fenced_by_its_epoch() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client, BY_LEADER)
        await producer.produce(b"a")
        late = producer.batch(b"late", 1)
        await producer.end()
        await producer.produce(b"b")
        request = produce("events", late, transactional_id="t")
        sent = await ask_produce(client, request, 12, is_native=True)
        assert sent.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        await producer.end()
        assert await seen(client, "events") == [b"a", b"b"]

    with_broker(story)


@pytest.mark.parametrize(("version", "code"), [(BY_CLIENT, 0), (BY_LEADER, 45)])
def test_only_without_kip_890_may_an_unknown_producer_begin_at_any_sequence(
    version: int, code: int
) -> None:
    async def story(client: Client) -> None:
        producer = await begin(client, version)
        if version == BY_CLIENT:
            assert await producer.add("events", 0) == NONE
        assert (await producer.produce(b"a", sequence=5)).error_code == code
        if code:
            assert (await producer.produce(b"a", sequence=0)).error_code == NONE
        await producer.end()
        assert await seen(client, "events") == [b"a"]

    with_broker(story)


def test_a_transactional_producer_may_ask_for_no_answer() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client, BY_LEADER)
        for sequence in range(3):
            sent = producer.batch(b"%d" % sequence, sequence)
            await client.send(produce("events", sent, acks=0, transactional_id="t"), 12)
        await asyncio.sleep(1)
        assert await producer.end() == NONE
        assert await seen(client, "events") == [b"0", b"1", b"2"]

    with_broker(story)


def test_a_plain_batch_of_the_producer_of_an_open_transaction_is_refused() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client, BY_LEADER)
        await producer.produce(b"a")
        plain = await producer.produce(b"b", transactional=False)
        assert plain.error_code == ErrorCode.INVALID_TXN_STATE

    with_broker(story)


def test_nobody_writes_to_internal_topics_in_a_transaction() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client, BY_LEADER)
        sent = await producer.produce(b"a", topic="__transaction_state")
        assert sent.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
        request = DescribeTransactionsRequest(transactional_ids=("t",))
        (described,) = (await client.ask(request)).transaction_states
        assert described.transaction_state == "Empty", "no partition was added"

    with_broker(story)


def test_open_transactions_are_described() -> None:
    async def story(client: Client) -> None:
        producer = await begin(client, BY_LEADER)
        producer_id, epoch = producer.producer_id, producer.epoch
        await client.ask(produce("events", batch()), 9)
        await producer.produce(b"a")
        await producer.produce(b"b")
        assert await described(client) == [(producer_id, epoch, 1, -1, 1)]
        await producer.end()
        ((_, bumped, sequence, coordinator_epoch, start),) = await described(client)
        assert (bumped, sequence, start) == (epoch + 1, -1, -1)
        assert coordinator_epoch >= 0

    with_broker(story)


async def described(client: Client) -> list[tuple[int, ...]]:
    topic = RequestedTopic(name="events", partition_indexes=(0,))
    answer = only(await client.ask(DescribeProducersRequest(topics=(topic,))))
    return [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in answer.active_producers
    ]


# With a coordinator that answers as told


Story = Callable[["Stage"], Coroutine[Any, Any, None]]


class Stage:
    """A broker with a scripted coordinator, and a producer that it takes for its own."""

    def __init__(
        self,
        client: Client,
        services: Services,
        coordinator: ScriptedCoordinator,
        version: int,
        machine: Machine,
    ) -> None:
        self.client = client
        self.services = services
        self.coordinator = coordinator
        self.machine = machine
        self.producer = ForgingProducer(client, version=version)
        self.producer.producer_id, self.producer.epoch = 7, 0

    def replica(self, partition: int = 0) -> Replica:
        found = self.services.partitions.replicas.named("events", partition)
        assert found is not None
        return found

    def write_marker(self, partition: int = 0, coordinator_epoch: int = 0) -> None:
        marker = TransactionMarker(7, 0, MarkerKind.COMMIT, coordinator_epoch)
        appender, now_ms = self.services.partitions.appender, self.services.now_ms
        appender.append_marker(self.replica(partition), marker, now_ms=now_ms)

    def sending(self, *args: Any, **fields: Any) -> "asyncio.Task[Any]":
        return asyncio.get_running_loop().create_task(self.producer.produce(*args, **fields))


def on_stage(story: Story, *codes: ErrorCode, version: int = 11, **settings: str) -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker(**settings) as admin:
            await create(admin, new_topic("events", 2))
            client, session = await begun(machine)
            services = services_of(session)
            coordinator = ScriptedCoordinator(*codes)
            services.coordinators = replace(services.coordinators, verifier=coordinator)
            stage = Stage(client, services, coordinator, version, machine)
            await story(stage)
            for partition in (0, 1):
                found = services.partitions.replicas.named("events", partition)
                assert found is None or not found.verifications._used, "a guard was not ended"

    run(tell(), clock=machine.clock)


@pytest.mark.parametrize("version", [9, 12])
def test_the_coordinator_is_asked_once_for_all_partitions_of_a_request(version: int) -> None:
    async def story(stage: Stage) -> None:
        producer = stage.producer
        sent = [producer.batch(b"a", 0), producer.batch(b"b", 0)]
        for batches in (sent, [producer.batch(b"c", 1), producer.batch(b"d", 1)]):
            request = produce("events", *batches, transactional_id="t")
            (topic,) = (await stage.client.ask(request, version)).responses
            assert [each.error_code for each in topic.partition_responses] == [NONE, NONE]
        (asked,) = stage.coordinator.asked
        partitions = (TopicPartition("events", 0), TopicPartition("events", 1))
        assert asked == ("t", 7, 0, partitions, version >= 12, -1)

    on_stage(story)


def test_the_question_has_the_latest_coordinator_epoch_of_the_producers_markers() -> None:
    async def story(stage: Stage) -> None:
        stage.write_marker(0, coordinator_epoch=3)
        stage.write_marker(1, coordinator_epoch=4)
        batches = [stage.producer.batch(value, 0) for value in (b"a", b"b")]
        await stage.client.ask(produce("events", *batches, transactional_id="t"), 9)
        (asked,) = stage.coordinator.asked
        assert asked.coordinator_epoch == 4

    on_stage(story)


def test_partitions_with_an_open_transaction_are_not_asked_for() -> None:
    async def story(stage: Stage) -> None:
        producer = stage.producer
        await producer.produce(b"a")
        request = produce(
            "events", producer.batch(b"b", 1), producer.batch(b"c", 0), transactional_id="t"
        )
        (topic,) = (await stage.client.ask(request, 9)).responses
        assert [each.error_code for each in topic.partition_responses] == [NONE, NONE]
        assert [asked.partitions for asked in stage.coordinator.asked] == [
            (TopicPartition("events", 0),),
            (TopicPartition("events", 1),),
        ]

    on_stage(story)


def test_after_a_marker_the_coordinator_is_asked_again() -> None:
    async def story(stage: Stage) -> None:
        for number in range(3):
            assert (await stage.producer.produce(b"a")).error_code == NONE
            stage.write_marker()
            assert len(stage.coordinator.asked) == number + 1

    on_stage(story)


def test_a_new_epoch_is_verified_although_the_old_one_has_an_open_transaction() -> None:
    async def story(stage: Stage) -> None:
        await stage.producer.produce(b"a")
        sent = await stage.producer.produce(b"b", sequence=0, producer_epoch=1)
        assert sent.error_code == NONE
        assert [asked.producer_epoch for asked in stage.coordinator.asked] == [0, 1]

    on_stage(story)


@pytest.mark.parametrize("is_native", [True, False])
def test_a_marker_between_verification_and_append_refuses_the_batch(is_native: bool) -> None:
    async def story(stage: Stage) -> None:
        stage.coordinator.may_answer.clear()
        sending = stage.sending(b"a", is_native=is_native)
        await asyncio.sleep(1)
        stage.write_marker()
        stage.coordinator.may_answer.set()
        sent = await sending
        assert (sent.error_code, sent.log_start_offset) == (ErrorCode.INVALID_TXN_STATE, 0)
        assert stage.replica().last_stable_offset == 1, "the marker alone"
        assert (await stage.producer.produce(b"a")).error_code == NONE, "verified anew"

    on_stage(story)


def test_a_marker_for_another_partition_or_producer_does_not_refuse_the_batch() -> None:
    async def story(stage: Stage) -> None:
        stage.coordinator.may_answer.clear()
        sending = stage.sending(b"a")
        await asyncio.sleep(1)
        stage.write_marker(partition=1)
        marker = TransactionMarker(8, 0, MarkerKind.ABORT, 0)
        appender = stage.services.partitions.appender
        appender.append_marker(stage.replica(), marker, now_ms=stage.services.now_ms)
        stage.coordinator.may_answer.set()
        assert (await sending).error_code == NONE

    on_stage(story)


def test_an_answer_for_a_deleted_and_recreated_topic_writes_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.coordinator.may_answer.clear()
        sending = stage.sending(b"a")
        await asyncio.sleep(1)
        old = stage.replica()
        admin = await stage.machine.client()
        await admin.ask(DeleteTopicsRequest(topic_names=("events",), timeout_ms=1_000), 5)
        await create(admin, new_topic("events", 2))
        stage.coordinator.may_answer.set()
        assert (await sending).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert stage.replica() is not old
        assert (old.log, stage.replica().log, len(old.verifications)) == (None, None, 1)

    on_stage(story)


def test_an_answer_for_an_earlier_leader_epoch_writes_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.coordinator.may_answer.clear()
        sending = stage.sending(b"a")
        await asyncio.sleep(1)
        # Another broker has led in between, and may have written a marker.
        stage.replica().partition.leader_epoch += 1
        stage.coordinator.may_answer.set()
        assert (await sending).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert stage.replica().log is None
        assert (await stage.producer.produce(b"a")).error_code == NONE

    on_stage(story)


def test_a_client_that_goes_while_its_transaction_is_verified_leaves_nothing_behind() -> None:
    async def story(stage: Stage) -> None:
        stage.coordinator.may_answer.clear()
        request = produce("events", stage.producer.batch(b"a", 0), transactional_id="t")
        await stage.client.send(request, 9)
        await asyncio.sleep(1)
        assert len(stage.replica().verifications) == 1
        assert stage.services.records.work.waiting_bytes > 0
        stage.client.close()
        await asyncio.sleep(1)
        assert len(stage.replica().verifications) == 0
        assert stage.services.records.work.waiting_bytes == 0

    on_stage(story)


def test_a_batch_that_waits_is_not_overwritten_by_later_requests() -> None:
    async def story(stage: Stage) -> None:
        stage.coordinator.may_answer.clear()
        # Several partitions: such requests are not gathered, which would copy them.
        batches = [stage.producer.batch(b"a" * 100, 0) for _ in range(2)]
        request = produce("events", *batches, transactional_id="t")
        sending = asyncio.get_running_loop().create_task(stage.client.ask(request, 9))
        await asyncio.sleep(1)
        other = await stage.machine.client()
        for _ in range(10):
            await other.ask(produce("none", batch(b"b" * 100), batch(b"b" * 100)), 9)
        stage.coordinator.may_answer.set()
        (topic,) = (await sending).responses
        assert [each.error_code for each in topic.partition_responses] == [NONE, NONE]
        assert await read(stage.client) == [b"a" * 100]

    on_stage(story)


def test_the_first_batch_is_not_overtaken_while_it_is_retried() -> None:
    async def story(stage: Stage) -> None:
        codes = [
            (await stage.producer.produce(b"%d" % sequence, sequence=sequence)).error_code
            for sequence in (0, 1, 1, 0, 1)
        ]
        late = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        assert codes == [ErrorCode.NOT_ENOUGH_REPLICAS, late, late, NONE, NONE]
        stage.write_marker()
        assert await seen(stage.client, "events") == [b"0", b"1"]
        assert len(stage.replica().verifications) == 0

    on_stage(story, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, NONE)


def test_a_refused_forgery_does_not_hold_back_the_true_producer() -> None:
    async def story(stage: Stage) -> None:
        forged = await stage.producer.produce(b"x", sequence=0)
        assert forged.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert (await stage.producer.produce(b"a", sequence=5)).error_code == NONE

    on_stage(story, ErrorCode.INVALID_PRODUCER_ID_MAPPING, NONE)


def test_two_connections_of_one_producer_write_to_the_same_transaction() -> None:
    async def story(stage: Stage) -> None:
        other = ForgingProducer(await stage.machine.client(), version=11)
        other.producer_id, other.epoch = 7, 0
        stage.coordinator.may_answer.clear()
        loop = asyncio.get_running_loop()
        second = loop.create_task(other.produce(b"b", sequence=1))
        await asyncio.sleep(1)
        first = stage.sending(b"a", sequence=0)
        await asyncio.sleep(1)
        stage.coordinator.may_answer.set()
        codes = (await second).error_code, (await first).error_code
        assert codes == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, NONE)
        assert (await other.produce(b"b", sequence=1)).error_code == NONE

    on_stage(story)


@pytest.mark.parametrize("is_native", [True, False])
@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.PRODUCER_FENCED, 12, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_ABORTABLE, 9, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.NOT_COORDINATOR, 12, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 11, ErrorCode.NOT_ENOUGH_REPLICAS),
    ],
)
def test_a_coordinators_refusal_is_told_in_words_of_produce(
    code: ErrorCode, version: int, told: ErrorCode, is_native: bool
) -> None:
    async def story(stage: Stage) -> None:
        sent = await stage.producer.produce(b"a", is_native=is_native)
        assert (sent.error_code, sent.base_offset, sent.log_start_offset) == (told, -1, -1)
        assert code.name in sent.error_message
        assert len(stage.coordinator.asked) == 1
        assert stage.replica().log is None

    on_stage(story, code, version=version)


def test_a_leader_waits_for_the_markers_of_the_previous_transaction() -> None:
    async def story(stage: Stage) -> None:
        began = asyncio.get_running_loop().time()
        sent = await stage.producer.produce(b"a")
        elapsed_ms = (asyncio.get_running_loop().time() - began) * 1000
        assert (sent.error_code, len(stage.coordinator.asked)) == (NONE, 3)
        assert 40 <= elapsed_ms < 100

    concurrent = ErrorCode.CONCURRENT_TRANSACTIONS
    on_stage(story, concurrent, concurrent, NONE, version=12)


def test_it_does_not_wait_for_ever() -> None:
    async def story(stage: Stage) -> None:
        sent = await stage.producer.produce(b"a")
        assert sent.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
        assert len(stage.coordinator.asked) == 6

    on_stage(story, ErrorCode.CONCURRENT_TRANSACTIONS, version=12)


def test_batches_that_wait_for_the_coordinator_have_a_limit() -> None:
    async def story(stage: Stage) -> None:
        stage.coordinator.may_answer.clear()
        waiting = stage.sending(bytes(700), 0)
        await asyncio.sleep(1)
        other = ForgingProducer(await stage.machine.client(), "other", version=9)
        other.producer_id, other.epoch = 8, 0
        sent = await other.produce(bytes(700), 1)
        assert sent.error_code == ErrorCode.REQUEST_TIMED_OUT
        stage.coordinator.may_answer.set()
        assert (await waiting).error_code == NONE
        assert (await other.produce(bytes(700), 1)).error_code == NONE

    on_stage(story, queued_max_request_bytes="1200", socket_request_max_bytes="1200")
