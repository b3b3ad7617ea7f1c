"""Produce, from the frame to the disk and the response."""

import errno
from typing import Any

import pytest

from ottla.broker.node.node import Node
from ottla.errors import ErrorCode
from ottla.protocol.batch import CRC_START
from ottla.protocol.exchange import decode_correlation_id
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from ottla.protocol.primitives import Uuid
from tests.sim.seams.loop import run
from tests.support.broker.nodes import framed, with_node
from tests.support.broker.produce_and_fetch import (
    NOW_MS,
    batch,
    fetch,
    only,
    produce,
    values,
    wanted,
)
from tests.support.broker.recorded_answers import comparable, ours, recordings
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker

# The topic names and ids of the recordings.
RECORDED_TOPICS = {
    "vec-a-80296": "OPyAHuokQceShla-0_g8kg",
    "vec-b-80296": "Dqu-OjNTRoOTrj8ec0YlMA",
    "vec-d-80959": "Ej6l88VOTPqV8nBXQpZjjQ",
}
RECORDED_WALL_MS = 1_794_780_400_000
# Requests whose response does not depend on earlier ones.
STATELESS = {2, 3, 21, 32, 47, 53, 87, 100}


async def read_values(client: Client, topic: str, partition: int = 0) -> list[bytes | None]:
    return values(only(await client.ask(fetch(topic, wanted(partition)), 12)).records)


@pytest.mark.parametrize("version", range(3, 14))
def test_records_produced_in_any_version_are_read_as_sent(version: int) -> None:
    async def story(client: Client) -> None:
        (topic,) = await create(client, new_topic("events", 2))
        key = topic.topic_id if version >= 13 else "events"
        response = await client.ask(produce(key, batch(b"a", b"b"), batch(b"c")), version)
        first, second = response.responses[0].partition_responses
        assert (first.index, first.error_code, first.base_offset) == (0, 0, 0)
        assert (second.index, second.error_code, second.base_offset) == (1, 0, 0)
        again = only(await client.ask(produce(key, batch(b"d")), version))
        assert (again.base_offset, again.log_append_time_ms) == (2, -1)
        assert again.log_start_offset == (0 if version >= 5 else -1)
        assert await read_values(client, "events") == [b"a", b"b", b"d"]
        assert await read_values(client, "events", 1) == [b"c"]

    with_broker(story)


def test_answers_to_recorded_requests_are_those_of_kafka() -> None:
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await create(client, *(new_topic(name, 3) for name in RECORDED_TOPICS))
        # Their later epochs fence the recorded transactional batches.
        for producer_id in range(1000, 1010):
            later = batch(producer_id=producer_id, producer_epoch=2, base_sequence=0)
            assert only(await client.ask(produce("vec-d-80959", later), 9)).error_code == 0
        for pair in recordings(0):
            asked = {
                topic.get("name", topic.get("topicId"))
                for topic in pair["requestJson"]["topicData"]
            }
            known = {*RECORDED_TOPICS, *RECORDED_TOPICS.values(), "AAAAAAAAAAAAAAAAAAAD6A"}
            if not pair["errors"] or not asked <= known or not set(pair["errors"]) <= STATELESS:
                continue
            assert answers(await ours(client, pair)) == answers(pair["responseJson"]), pair
            compared.update(pair["errors"])

    machine = Machine()
    machine.clock.jump_wall(RECORDED_WALL_MS - machine.clock.wall_ms())
    machine.entropy.ids.append(Uuid(b"cluster of tests"))
    machine.entropy.ids.append(Uuid(b"directory of one"))
    machine.entropy.ids.append(Uuid(b"incarnation of 1"))
    machine.entropy.ids.extend(map(Uuid.parse, RECORDED_TOPICS.values()))
    with_broker(story, machine=machine)
    assert compared == STATELESS


def answers(response: Any) -> list[Any]:
    """The fields of each partition, without the content of the log."""
    found = []
    for topic in comparable(response)["responses"]:
        for partition in topic["partitionResponses"]:
            for record_error in partition.get("recordErrors", ()):
                record_error["batchIndexErrorMessage"] = "a sentence"
            if not partition["errorCode"]:
                partition["baseOffset"] = "somewhere"
            found.append({**partition, "topic": topic.get("name", topic.get("topicId"))})
    return sorted(found, key=str)


def test_acks_0_gets_no_response_and_does_not_delay_later_requests() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        silent = framed(produce("events", batch(b"a"), acks=0), 9, correlation_id=1)
        asked = framed(ApiVersionsRequest(), 0, correlation_id=2)
        answer = await client.exchange(silent + asked)
        assert decode_correlation_id(answer) == 2
        assert await read_values(client, "events") == [b"a"]

    with_broker(story)


def test_a_failed_produce_with_acks_0_is_counted_and_the_connection_stays() -> None:
    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events"))
        silent = framed(produce("events", b"", acks=0), 9) + framed(produce("none", b"", acks=0), 9)
        answer = await client.exchange(silent + framed(ApiVersionsRequest(), 0, correlation_id=3))
        assert decode_correlation_id(answer) == 3
        assert node.metrics.topic("events").failed_produce_requests == 1
        assert node.metrics.request("Produce").errors.counts == {
            "INVALID_RECORD": 1,
            "UNKNOWN_TOPIC_OR_PARTITION": 1,
        }

    with_node(story)


@pytest.mark.parametrize("acks", [-2, 2, 5, 32767])
def test_other_acks_than_0_1_and_all_are_refused_for_each_partition(acks: int) -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        response = await client.ask(produce("events", batch(), batch(), acks=acks), 9)
        for partition in response.responses[0].partition_responses:
            assert partition.error_code == ErrorCode.INVALID_REQUIRED_ACKS
            assert (partition.base_offset, partition.log_append_time_ms) == (-1, -1)
            assert (partition.log_start_offset, partition.error_message) == (-1, None)
        assert await read_values(client, "events") == []

    with_broker(story)


def test_a_bad_batch_is_refused_with_kafkas_code() -> None:
    damaged = batch(b"a")
    damaged[CRC_START + 3] ^= 1
    old = batch(b"a")
    old[16] = 1
    refused: list[tuple[bytes | bytearray | None, ErrorCode]] = [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"a") + batch(b"b"), ErrorCode.INVALID_RECORD),
        (old, ErrorCode.INVALID_RECORD),
        (damaged, ErrorCode.CORRUPT_MESSAGE),
        (bytes(20), ErrorCode.CORRUPT_MESSAGE),
        (
            batch(b"a", transactional=True, producer_id=1),
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ),
        (batch(bytes(1_048_588)), ErrorCode.MESSAGE_TOO_LARGE),
    ]

    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        for records, code in refused:
            result = only(await client.ask(produce("events", records), 9))
            assert ErrorCode(result.error_code) is code
            assert (result.base_offset, result.log_start_offset) == (-1, -1)
            assert result.record_errors == ()
            # Only of what is no batch at all.
            assert (result.error_message is not None) == (records == bytes(20))
        assert await read_values(client, "events") == []

    with_broker(story)


def test_a_bad_record_is_named_with_the_log_start_offset() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        late = batch(b"a", timestamp_ms=NOW_MS + 4_000_000)
        result = only(await client.ask(produce("events", late), 9))
        assert result.error_code == ErrorCode.INVALID_TIMESTAMP
        assert (result.base_offset, result.log_start_offset) == (-1, 0)
        assert [each.batch_index for each in result.record_errors] == [0]
        assert result.error_message
        older = only(await client.ask(produce("events", late), 3))
        assert older.error_code == ErrorCode.INVALID_TIMESTAMP

    with_broker(story)


def test_a_repeated_batch_of_an_idempotent_producer_gets_its_first_offset() -> None:
    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events"))
        sent = batch(b"a", b"b", producer_id=9, producer_epoch=0, base_sequence=0)
        first = only(await client.ask(produce("events", sent), 9))
        await client.ask(produce("events", batch(b"c")), 9)
        again = only(await client.ask(produce("events", sent), 9))
        assert (first.base_offset, first.log_append_time_ms) == (0, -1)
        assert (again.error_code, again.base_offset) == (0, 0)
        assert again.log_append_time_ms == NOW_MS + 1, "the batch's largest time, as Kafka has it"
        assert await read_values(client, "events") == [b"a", b"b", b"c"]
        assert node.metrics.topic("events").messages_in == 3

    with_node(story)


def test_a_gap_in_the_sequence_and_an_old_epoch_are_refused_by_the_log() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        begun = batch(producer_id=9, producer_epoch=3, base_sequence=7)
        assert only(await client.ask(produce("events", begun), 9)).error_code == 0, "any beginning"
        gap = batch(producer_id=9, producer_epoch=3, base_sequence=9)
        old = batch(producer_id=9, producer_epoch=2, base_sequence=0)
        skipped = batch(producer_id=9, producer_epoch=4, base_sequence=1)
        for sent, code in [(gap, 45), (old, 47), (skipped, 45)]:
            result = only(await client.ask(produce("events", sent), 9))
            assert (result.error_code, result.base_offset) == (code, -1)
            assert (result.log_start_offset, result.error_message) == (0, None)

    with_broker(story)


def test_a_transactional_id_allows_plain_batches_and_transactional_ones_of_its_producer() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        plain = await client.ask(produce("events", batch(b"a"), transactional_id="t"), 9)
        assert only(plain).error_code == 0
        sent = batch(b"b", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
        refused = only(await client.ask(produce("events", sent, transactional_id="t"), 9))
        assert refused.error_code == ErrorCode.NOT_ENOUGH_REPLICAS, "there is no coordinator yet"
        assert refused.log_start_offset == -1
        assert await read_values(client, "events") == [b"a"]

    with_broker(story)


def test_log_append_time_is_set_also_in_requests_that_had_to_wait() -> None:
    async def story(client: Client) -> None:
        stamped = new_topic("stamped", configs={"message.timestamp.type": "LogAppendTime"})
        await create(client, stamped, new_topic("quiet"))
        # A fetch is under way while the produce arrives behind it.
        parked = framed(fetch("quiet", wanted(), wait_ms=200), 12, correlation_id=1)
        behind = framed(produce("stamped", batch(b"a", timestamp_ms=5)), 9, correlation_id=2)
        assert decode_correlation_id(await client.exchange(parked + behind)) == 1
        assert decode_correlation_id(await client.exchange(b"")) == 2
        result = only(await client.ask(produce("stamped", batch(b"b", timestamp_ms=5)), 9))
        assert result.log_append_time_ms >= NOW_MS
        assert await read_values(client, "stamped") == [b"a", b"b"]

    with_broker(story)


def test_flush_messages_flushes_before_the_acknowledgement() -> None:
    machine = Machine(seed=3)
    setting_up = machine.disk.process()
    setting_up.make_dir("/data")
    setting_up.sync_dir("/")

    async def tell() -> None:
        node = machine.node()
        await node.start()
        client = await machine.client()
        await create(client, new_topic("events", configs={"flush.messages": "1"}))
        assert only(await client.ask(produce("events", batch(b"kept"), acks=1), 9)).error_code == 0
        machine.net.power_loss()
        machine.disk.power_loss()
        await node.stop()
        assert "not closed cleanly" in machine.notes.events("error")
        machine.net.boot()
        async with machine.broker() as again:
            assert await read_values(again, "events") == [b"kept"]

    run(tell(), clock=machine.clock)


def test_a_failed_flush_is_an_error_and_nothing_more_is_appended() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic("events", configs={"flush.messages": "1"}))
        assert only(await client.ask(produce("events", batch()), 9)).error_code == 0
        machine.disk.faults.fail_next_sync("*events-0*")
        for _ in range(2):
            result = only(await client.ask(produce("events", batch(b"b")), 9))
            assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR

    with_broker(story, machine=machine)


def test_a_full_disk_refuses_and_still_reads() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        await client.ask(produce("events", batch(b"a")), 9)
        machine.disk.faults.fail_next_write("*events-0*.log", error=errno.ENOSPC)
        full = only(await client.ask(produce("events", batch(b"b")), 9))
        assert (full.error_code, full.base_offset) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)
        assert only(await client.ask(produce("events", batch(b"c")), 9)).base_offset == 1
        assert await read_values(client, "events") == [b"a", b"c"]

    with_broker(story, machine=machine)


def test_records_and_bytes_are_counted_by_topic() -> None:
    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events", 2))
        first, second = batch(b"a", b"b"), batch(b"c")
        await client.ask(produce("events", first, second), 9)
        await client.ask(produce("events", b"broken", acks=1), 9)
        counters = node.metrics.topic("events")
        assert (counters.messages_in, counters.bytes_in) == (3, len(first) + len(second))
        assert (counters.produce_requests, counters.failed_produce_requests) == (3, 1)
        assert counters.bytes_rejected == len(b"broken")

    with_node(story)


def test_a_deleted_topic_refuses_produces_by_name_and_by_id() -> None:
    async def story(client: Client) -> None:
        (topic,) = await create(client, new_topic("events"))
        await client.ask(produce("events", batch()), 9)
        await client.ask(DeleteTopicsRequest(topic_names=("events",), timeout_ms=1_000), 5)
        by_name = only(await client.ask(produce("events", batch()), 12))
        by_id = only(await client.ask(produce(topic.topic_id, batch())))
        assert by_name.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID

    with_broker(story)
