"""Transactions through the broker's APIs: what read_committed consumers see, and when."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from ottla.errors import ErrorCode, StorageError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, Transaction
from ottla.protocol.messages.add_partitions_to_txn import Topic as AddedTopic
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.messages.delete_topics import Topic as DeletedTopic
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.protocol.messages.update_features import FeatureUpdate, UpdateFeaturesRequest
from ottla.protocol.messages.write_txn_markers import Marker, Topic, WriteTxnMarkersRequest
from ottla.protocol.primitives import ZERO_UUID
from tests.sim.seams.loop import run
from tests.support.broker.group_requests import committed, find
from tests.support.broker.produce_and_fetch import fetch, only, wanted
from tests.support.broker.sessions import begun as begun_session
from tests.support.broker.sessions import services_of
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker
from tests.support.broker.transactional_requests import READ_COMMITTED, Producer, retried, seen

NONE = ErrorCode.NONE
READ_UNCOMMITTED = 0
BOTH = pytest.mark.parametrize("version", [1, 2])
QUICK = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "10"}


async def begun(client: Client, version: int = 2, **options: Any) -> Producer:
    """A producer of a broker with the topic `events` of two partitions."""
    producer = Producer(client, version=version, **options)
    await producer.begin()
    return producer


async def describe(client: Client, transactional_id: str = "id") -> Any:
    request = DescribeTransactionsRequest(transactional_ids=(transactional_id,))
    (described,) = (await client.ask(request)).transaction_states
    return described


# Committed and aborted


@BOTH
def test_a_transaction_is_seen_when_it_is_committed_and_never_when_aborted(version: int) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client, version)
        await producer.write("events", b"a", b"b")
        await producer.write("events", b"c", partition=1)
        assert await seen(client, "events") == []
        assert await producer.end() == NONE
        assert await seen(client, "events") == [b"a", b"b"]
        assert await seen(client, "events", partition=1) == [b"c"]
        await producer.write("events", b"x")
        assert await producer.end(committed=False) == NONE
        await producer.write("events", b"d")
        assert await producer.end() == NONE
        assert await seen(client, "events") == [b"a", b"b", b"d"]

    with_broker(story)


@BOTH
def test_a_hundred_transactions_need_no_retry(version: int) -> None:
    """On one broker the markers are written before a request can follow EndTxn's answer."""

    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client, version)
        for number in range(100):
            await producer.write("events", b"%d" % number)
            assert await producer.end(committed=number % 3 > 0) == NONE
        assert await seen(client, "events") == [b"%d" % n for n in range(100) if n % 3]

    with_broker(story)


def test_a_reader_that_waits_is_woken_by_the_commit() -> None:
    async def story(client: Client, machine: Machine) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client)
        await producer.write("events", b"a" * 2_000)
        reader = await machine.client()
        request = fetch(
            "events", wanted(), isolation=READ_COMMITTED, wait_ms=60_000, bytes_min=1_000
        )
        reading = asyncio.create_task(reader.ask(request, 12))
        await asyncio.sleep(1)
        began_ns = machine.clock.steady_ns()
        assert await producer.end() == NONE
        answer = only(await reading)
        assert (machine.clock.steady_ns() - began_ns) / 1e9 < 1
        assert answer.last_stable_offset == 2

    machine = Machine()

    async def tell() -> None:
        async with machine.broker() as client:
            await story(client, machine)

    run(tell(), clock=machine.clock)


@BOTH
def test_a_second_producer_fences_the_first(version: int) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        first = await begun(client, version)
        await first.write("events", b"first")
        second = await begun(client, version)
        assert await first.send("events", b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert await first.end() == ErrorCode.PRODUCER_FENCED
        await second.write("events", b"second")
        assert await second.end() == NONE
        assert await seen(client, "events") == [b"second"]

    with_broker(story)


@BOTH
def test_a_transaction_whose_producer_is_gone_is_aborted_after_its_timeout(version: int) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client, version, timeout_ms=5_000)
        await producer.write("events", b"lost")
        other = Producer(client, "other", version=version)
        await other.begin()
        await other.write("events", b"kept")
        assert await other.end() == NONE
        await asyncio.sleep(4)
        assert await seen(client, "events") == []
        await asyncio.sleep(2)
        assert await seen(client, "events") == [b"kept"]
        assert await producer.send("events", b"late") == ErrorCode.INVALID_PRODUCER_EPOCH
        # For version 2 it is a late retry, of another outcome than the one that was decided.
        refusals = {1: ErrorCode.PRODUCER_FENCED, 2: ErrorCode.INVALID_TXN_STATE}
        assert await producer.end() == refusals[version]

    with_broker(story, **QUICK)


# Verification


def test_a_partition_that_was_not_added_is_refused() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client, version=1)
        assert await producer.send("events", b"a") == ErrorCode.INVALID_TXN_STATE
        assert await producer.send("events", b"a", version=11) == ErrorCode.TRANSACTION_ABORTABLE
        await producer.write("events", b"b", partition=1)
        assert await producer.end() == NONE
        assert await seen(client, "events", isolation=READ_UNCOMMITTED) == []

    with_broker(story)


def test_without_verification_a_partition_is_written_as_before_kip_890() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client, version=1)
        assert await producer.send("events", b"a") == NONE

    with_broker(story, transaction_partition_verification_enable="false")


def test_a_late_batch_does_not_begin_a_transaction_that_no_marker_ends() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client, version=1)
        assert await producer.add("events", 0, 1) == NONE
        assert await producer.send("events", b"a") == NONE
        assert await producer.end(committed=False) == NONE
        assert await producer.send("events", b"late", partition=1) == ErrorCode.INVALID_TXN_STATE
        answer = only(await client.ask(fetch("events", wanted(1), isolation=READ_COMMITTED), 12))
        assert answer.last_stable_offset == answer.high_watermark

    with_broker(story)


def test_brokers_verify_and_add_the_partitions_of_many_transactions() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client, version=1)
        assert await producer.add("events", 0) == NONE

        async def ask(version: int, verify_only: bool, *indexes: int, name: str = "id") -> Any:
            request = AddPartitionsToTxnRequest(
                transactions=(
                    Transaction(
                        transactional_id=name,
                        producer_id=producer.producer_id,
                        producer_epoch=producer.epoch,
                        verify_only=verify_only,
                        topics=(AddedTopic(name="events", partitions=indexes),),
                    ),
                )
            )
            (result,) = (await client.ask(request, version)).results_by_transaction
            (topic,) = result.topic_results
            return [each.partition_error_code for each in topic.results_by_partition]

        assert await ask(5, True, 0, 1) == [NONE, ErrorCode.TRANSACTION_ABORTABLE]
        assert await ask(4, True, 1) == [ErrorCode.TRANSACTION_ABORTABLE]
        assert await ask(5, False, 0, 1) == [NONE, NONE]
        assert await ask(5, True, 0, 1) == [NONE, NONE]
        assert await ask(5, False, 1, 7) == [
            ErrorCode.OPERATION_NOT_ATTEMPTED,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert await ask(5, True, 0, name="nobody") == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]

    with_broker(story)


# Offsets


@BOTH
def test_offsets_are_committed_with_the_transaction(version: int) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client, version)
        await find(client, "g")
        assert await producer.commit_offsets("g", "events", {0: 5, 1: 6}) == [NONE, NONE]
        assert await committed(client, "g") == {}
        assert await producer.end() == NONE
        assert await committed(client, "g") == {("events", 0): 5, ("events", 1): 6}
        assert await producer.commit_offsets("g", "events", {0: 9}) == [NONE]
        assert await producer.end(committed=False) == NONE
        assert await committed(client, "g") == {("events", 0): 5, ("events", 1): 6}

    with_broker(story)


# Restarts


@BOTH
@pytest.mark.parametrize("is_committed", [True, False])
def test_an_open_transaction_goes_on_after_a_kill(version: int, is_committed: bool) -> None:
    machine = Machine()
    producer = Producer(Client(), version=version)

    async def until_the_kill() -> None:
        node = machine.node()
        await node.start()
        client = producer.client = await machine.client()
        await create(client, new_topic("events", 2))
        await find(client, "g")
        await producer.begin()
        await producer.write("events", b"before")
        assert await producer.commit_offsets("g", "events", {0: 5}) == [NONE]
        client.close()
        assert machine.files is not None
        machine.files.crash()
        with suppress(StorageError):
            await node.stop()

    async def after_the_kill() -> None:
        async with machine.broker() as client:
            producer.client = client
            assert await retried(lambda: producer.send("events", b"after")) == NONE
            assert await seen(client, "events") == []
            assert await committed(client, "g") == {}
            assert await retried(lambda: producer.end(is_committed)) == NONE
            expected = [b"before", b"after"] if is_committed else []
            assert await seen(client, "events") == expected
            assert await committed(client, "g") == ({("events", 0): 5} if is_committed else {})

    run(until_the_kill(), clock=machine.clock)
    run(after_the_kill(), clock=machine.clock)


# Administration


def test_a_deleted_topic_does_not_keep_its_transactions_from_ending() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2), new_topic("other"))
        producer = await begun(client)
        await producer.write("events", b"a")
        await producer.write("other", b"b")
        deleted = DeletedTopic(name="other", topic_id=ZERO_UUID)
        await client.ask(DeleteTopicsRequest(topics=(deleted,), timeout_ms=1_000))
        assert await producer.end() == NONE
        assert (await describe(client)).transaction_state == "CompleteCommit"
        await producer.write("events", b"c")
        assert await producer.end() == NONE
        assert await seen(client, "events") == [b"a", b"c"]

    with_broker(story)


def test_a_transaction_is_described_and_listed() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client)
        await producer.write("events", b"a", partition=1)
        described = await describe(client)
        assert (described.error_code, described.transaction_state) == (NONE, "Ongoing")
        assert (described.producer_id, described.producer_epoch) == producer.identity
        assert [(each.topic, each.partitions) for each in described.topics] == [("events", (1,))]
        assert (await describe(client, "nobody")).error_code == (
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        )
        other = Producer(client, "other")
        await other.begin()

        async def listed(**filters: Any) -> list[str]:
            given = {"state_filters": (), "producer_id_filters": (), **filters}
            response = await client.ask(ListTransactionsRequest(**given))
            return sorted(each.transactional_id for each in response.transaction_states)

        assert await listed() == ["id", "other"]
        assert await listed(state_filters=("Ongoing",)) == ["id"]
        assert await listed(state_filters=("Nonsense",)) == []
        assert await listed(producer_id_filters=(other.producer_id,)) == ["other"]
        assert await listed(transactional_id_pattern="o.*") == ["other"]
        await asyncio.sleep(2)
        assert await listed(state_filters=("Ongoing",), duration_filter=1_000) == ["id"]
        assert await listed(state_filters=("Ongoing",), duration_filter=60_000) == []
        refused = await client.ask(
            ListTransactionsRequest(
                state_filters=(), producer_id_filters=(), transactional_id_pattern="("
            )
        )
        assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

    with_broker(story)


def test_an_administrator_ends_a_hanging_transaction_by_a_marker() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client, version=1)
        assert await producer.send("events", b"hanging") == NONE

        async def write(coordinator_epoch: int, index: int = 0) -> int:
            marker = Marker(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                transaction_result=bool(MarkerKind.ABORT),
                topics=(Topic(name="events", partition_indexes=(index,)),),
                coordinator_epoch=coordinator_epoch,
            )
            response = await client.ask(WriteTxnMarkersRequest(markers=(marker,)))
            return response.markers[0].topics[0].partitions[0].error_code

        assert await write(0, index=9) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await write(3) == NONE
        assert await write(2) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
        assert await seen(client, "events") == []
        answer = only(await client.ask(fetch("events", wanted(), isolation=READ_COMMITTED), 12))
        assert answer.last_stable_offset == answer.high_watermark

    with_broker(story, transaction_partition_verification_enable="false")


def test_many_markers_are_written_in_several_turns_and_none_without_a_producer() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 100))

        def marker(producer_id: int) -> Marker:
            return Marker(
                producer_id=producer_id,
                producer_epoch=0,
                transaction_result=True,
                topics=(Topic(name="events", partition_indexes=tuple(range(100))),),
                coordinator_epoch=0,
            )

        answer = await client.ask(WriteTxnMarkersRequest(markers=(marker(7), marker(-1))))
        codes = [
            {partition.error_code for partition in result.topics[0].partitions}
            for result in answer.markers
        ]
        assert codes == [{NONE}, {ErrorCode.INVALID_PRODUCER_ID_MAPPING}]
        for index in (0, 31, 32, 99):
            assert only(await client.ask(fetch("events", wanted(index)), 12)).high_watermark == 1

    with_broker(story)


def test_other_requests_have_their_turn_between_markers() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 40))
        _, session = await begun_session(machine)
        leaders = services_of(session).coordinators.partition_leaders
        append = leaders.append
        loop = asyncio.get_running_loop()
        turn = 0
        # The markers of each turn of the event loop.
        appended: Counter[int] = Counter()

        def next_turn() -> None:
            nonlocal turn
            turn += 1

        def append_and_count(marker: Any, partitions: Any) -> Any:
            appended[turn] += len(partitions)
            loop.call_soon(next_turn)
            return append(marker, partitions)

        leaders.append = append_and_count  # type: ignore[method-assign]
        markers = tuple(
            Marker(
                producer_id=producer_id,
                producer_epoch=0,
                transaction_result=True,
                topics=(Topic(name="events", partition_indexes=tuple(range(20))),),
                coordinator_epoch=0,
            )
            for producer_id in range(1, 6)
        )
        await client.ask(WriteTxnMarkersRequest(markers=markers))
        assert sum(appended.values()) == 100
        assert max(appended.values()) <= 32

    machine = Machine()
    with_broker(story, machine=machine)


def test_markers_are_flushed_before_they_are_answered_where_records_are() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", configs={"flush.messages": "1"}))
        _, session = await begun_session(machine)
        marker = Marker(
            producer_id=7,
            producer_epoch=0,
            transaction_result=True,
            topics=(Topic(name="events", partition_indexes=(0,)),),
            coordinator_epoch=0,
        )
        await client.ask(WriteTxnMarkersRequest(markers=(marker, marker)))
        replica = services_of(session).partitions.replicas.named("events", 0)
        assert replica is not None
        assert replica.log is not None
        assert replica.log.recovery_point == replica.log.end_offset == 2

    machine = Machine()
    with_broker(story, machine=machine)


def test_the_transaction_version_can_be_lowered_and_raised() -> None:
    async def finalized(client: Client) -> dict[str, int]:
        answer = await client.ask(
            ApiVersionsRequest(client_software_name="t", client_software_version="1")
        )
        return {each.name: each.max_version_level for each in answer.finalized_features}

    async def update(client: Client, level: int, upgrade_type: int, **options: Any) -> int:
        change = FeatureUpdate(
            feature="transaction.version", max_version_level=level, upgrade_type=upgrade_type
        )
        request = UpdateFeaturesRequest(feature_updates=(change,), **options)
        return (await client.ask(request)).error_code

    machine = Machine()

    async def tell() -> None:
        async with machine.broker() as client:
            assert (await finalized(client))["transaction.version"] == 2
            assert await update(client, 1, 1) == ErrorCode.INVALID_UPDATE_VERSION
            assert await update(client, 1, 2, validate_only=True) == NONE
            assert (await finalized(client))["transaction.version"] == 2
            assert await update(client, 3, 1) == ErrorCode.INVALID_UPDATE_VERSION
            assert await update(client, 0, 2) == NONE
            assert "transaction.version" not in await finalized(client)
        async with machine.broker() as client:
            assert "transaction.version" not in await finalized(client)
            assert await update(client, 2, 1) == NONE
            assert (await finalized(client))["transaction.version"] == 2

    run(tell(), clock=machine.clock)


# Settings


def test_the_transaction_topic_is_created_with_the_brokers_settings() -> None:
    async def story(client: Client) -> None:
        from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, Resource
        from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic

        await Producer(client).find()
        name = "__transaction_state"
        (topic,) = (await client.ask(MetadataRequest(topics=(RequestedTopic(name=name),)))).topics
        assert (topic.is_internal, len(topic.partitions)) == (True, 7)
        keys = ("segment.bytes", "min.insync.replicas", "cleanup.policy")
        asked = Resource(resource_type=2, resource_name=name, configuration_keys=keys)
        described = await client.ask(DescribeConfigsRequest(resources=(asked,)))
        configs = {each.name: each.value for each in described.results[0].configs}
        assert configs == {
            "segment.bytes": "2000000",
            "min.insync.replicas": "3",
            "cleanup.policy": "compact",
        }

    with_broker(
        story,
        transaction_state_log_num_partitions="7",
        transaction_state_log_segment_bytes="2000000",
        transaction_state_log_min_isr="3",
    )


def test_timeouts_ids_and_partitions_are_limited_by_settings() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 3))
        producer = Producer(client, timeout_ms=1_001)
        await producer.find()
        assert await retried(producer.init) == ErrorCode.INVALID_TRANSACTION_TIMEOUT
        producer.timeout_ms = 1_000
        assert await retried(producer.init) == NONE
        assert await producer.add("events", 0, 1) == NONE
        assert await producer.add("events", 2) == ErrorCode.POLICY_VIOLATION
        other = Producer(client, "other", timeout_ms=1_000)
        assert await retried(other.init) == ErrorCode.POLICY_VIOLATION

    with_broker(
        story,
        transaction_state_log_num_partitions="1",
        transaction_max_timeout_ms="1000",
        ottla_transactional_ids_max="1",
        ottla_transaction_partitions_max="2",
    )


def test_offsets_in_open_transactions_are_limited() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 3))
        await find(client, "g")
        producer = await begun(client)
        assert await producer.commit_offsets("g", "events", {0: 1, 1: 1}) == [NONE, NONE]
        (code,) = await producer.commit_offsets("g", "events", {2: 1})
        # Clients of all versions retry.
        assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await producer.end() == NONE
        assert await producer.commit_offsets("g", "events", {2: 1}) == [NONE]

    with_broker(story, ottla_pending_offsets_max="2", offsets_topic_num_partitions="1")


@pytest.mark.parametrize(
    ("limit_ms", "code"), [(400, NONE), (100, ErrorCode.CONCURRENT_TRANSACTIONS)]
)
def test_a_leader_asks_again_while_markers_are_written_as_long_as_its_settings_say(
    limit_ms: int, code: ErrorCode
) -> None:
    """Another broker takes 300 ms to write a marker of the producer's last transaction."""

    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        producer = await begun(client)
        await producer.write("events", b"a")
        _, session = await begun_session(machine)
        leaders = services_of(session).coordinators.partition_leaders
        write = leaders.write
        slow_until_s = asyncio.get_running_loop().time() + 0.3

        def write_late(marker: Any, partitions: Any) -> Any:
            if asyncio.get_running_loop().time() < slow_until_s:
                return dict.fromkeys(partitions, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return write(marker, partitions)

        leaders.write = write_late
        assert await producer.end() == NONE
        assert await producer.send("events", b"b") == code

    settings = {
        "add_partitions_to_txn_retry_backoff_ms": "10",
        "add_partitions_to_txn_retry_backoff_max_ms": str(limit_ms),
    }
    machine = Machine()
    with_broker(story, machine=machine, **settings)


def test_idle_transactional_ids_expire_by_settings() -> None:
    async def story(client: Client) -> None:
        await begun(client)
        await asyncio.sleep(50)
        assert (await describe(client)).error_code == NONE
        await asyncio.sleep(20)
        assert (await describe(client)).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

    with_broker(
        story,
        transactional_id_expiration_ms="60000",
        transaction_remove_expired_transaction_cleanup_interval_ms="1000",
    )
