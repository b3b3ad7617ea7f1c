"""Fetch, over the wire, in virtual time."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import uvloop

from ottla.broker.node.context import Seams
from ottla.broker.node.node import Node
from ottla.errors import ErrorCode
from ottla.protocol.exchange import decode_correlation_id, decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.delete_records import DeleteRecordsRequest
from ottla.protocol.messages.delete_records import Partition as DeletedPartition
from ottla.protocol.messages.delete_records import Topic as DeletedTopic
from ottla.protocol.primitives import Uuid
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import RealFiles
from ottla.seams.net import RealNet
from ottla.seams.threads import RealThreads
from ottla.seams.workers import RealWorkers
from ottla.settings.sources import load
from tests.sim.seams.faults import FaultRates
from tests.support.broker.nodes import framed, with_node
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.recorded_answers import comparable, ours, recordings
from tests.support.broker.simulated_broker import (
    Client,
    Machine,
    Notes,
    create,
    new_topic,
    with_broker,
)

RECORDED_TOPIC = "vec-a-80296"
RECORDED_TOPIC_ID = "OPyAHuokQceShla-0_g8kg"
# Requests whose response does not depend on earlier ones.
STATELESS = {1, 3, 70, 75, 100}


def now_ms() -> int:
    return round(asyncio.get_running_loop().time() * 1000)


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_what_was_written(version: int) -> None:
    async def story(client: Client) -> None:
        (topic,) = await create(client, new_topic("events", 2))
        await client.ask(produce("events", batch(b"a", b"b")), 9)
        key = topic.topic_id if version >= 13 else "events"
        response = await client.ask(fetch(key, wanted(0), wanted(1)), version)
        assert (response.error_code, response.session_id) == (0, 0)
        first, second = response.responses[0].partitions
        assert values(first.records) == [b"a", b"b"]
        assert (first.high_watermark, first.last_stable_offset) == (2, 2)
        assert first.log_start_offset == (0 if version >= 5 else -1)
        assert (first.aborted_transactions, first.preferred_read_replica) == (None, -1)
        assert bytes(second.records) == b"", "empty, never null"
        assert (second.error_code, second.high_watermark) == (0, 0)

    with_broker(story)


def test_answers_to_recorded_requests_are_those_of_kafka() -> None:
    compared: set[int] = set()

    async def story(client: Client) -> None:
        await create(client, new_topic(RECORDED_TOPIC, 3))
        await client.ask(produce(RECORDED_TOPIC, batch(), batch(), batch()), 9)
        for pair in recordings(1):
            if not pair["errors"] or not set(pair["errors"]) <= STATELESS:
                continue
            assert answers(await ours(client, pair)) == answers(pair["responseJson"]), pair
            compared.update(pair["errors"])

    machine = Machine()
    machine.entropy.ids.append(Uuid(b"cluster of tests"))
    machine.entropy.ids.append(Uuid(b"directory of one"))
    machine.entropy.ids.append(Uuid(b"incarnation of 1"))
    machine.entropy.ids.append(Uuid.parse(RECORDED_TOPIC_ID))
    with_broker(story, machine=machine)
    assert compared == STATELESS


def answers(response: Any) -> tuple[Any, Any, list[Any]]:
    """The top-level fields, and each partition's without the content of the log."""
    found = []
    for topic in comparable(response)["responses"]:
        for partition in topic["partitions"]:
            if not partition["errorCode"]:
                for held in ("highWatermark", "lastStableOffset", "records"):
                    partition[held] = "something"
            found.append({**partition, "topic": topic.get("topic", topic.get("topicId"))})
    return response.get("errorCode"), response.get("sessionId"), sorted(found, key=str)


def test_a_long_poll_answers_at_once_when_something_is_produced() -> None:
    machine = Machine()

    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events"))
        producer = await machine.client()
        began_ms = now_ms()
        polling = asyncio.create_task(client.ask(fetch("events", wanted(), wait_ms=5_000), 12))
        await asyncio.sleep(0.1)
        await producer.ask(produce("events", batch(b"a")), 9)
        assert values(only(await polling).records) == [b"a"]
        assert now_ms() - began_ms < 150
        producer.close()

    with_node(story, machine)


def test_a_long_poll_does_nothing_while_it_waits_and_ends_in_time() -> None:
    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events", 3))
        began_ms = now_ms()
        polled = fetch("events", wanted(0), wanted(1), wanted(2), wait_ms=5_000)
        response = await client.ask(polled, 12)
        assert 5_000 <= now_ms() - began_ms < 5_050
        assert [bytes(each.records) for each in response.responses[0].partitions] == [b""] * 3
        assert node.metrics.topic("events").fetch_requests == 3, "counted once, when answered"

    with_node(story)


def test_a_fetch_waits_for_min_bytes() -> None:
    machine = Machine()

    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events"))
        producer = await machine.client()
        polled = fetch("events", wanted(), wait_ms=5_000, bytes_min=2 * len(batch()))
        polling = asyncio.create_task(client.ask(polled, 12))
        await asyncio.sleep(0.1)
        await producer.ask(produce("events", batch()), 9)
        await asyncio.sleep(0.2)
        assert not polling.done()
        await producer.ask(produce("events", batch()), 9)
        assert len(values(only(await polling).records)) == 2
        producer.close()

    with_node(story, machine)


@pytest.mark.parametrize(
    "request_", [fetch("events", wait_ms=5_000), fetch("missing", wanted(), wait_ms=5_000)]
)
def test_fetches_without_a_wait_and_errors_are_answered_at_once(request_: Any) -> None:
    async def story(client: Client) -> None:
        began_ms = now_ms()
        response = await client.ask(request_, 12)
        assert now_ms() - began_ms < 50
        codes = [each.error_code for topic in response.responses for each in topic.partitions]
        assert codes in ([], [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])

    with_broker(story)


def test_a_client_that_disconnects_leaves_no_parked_fetch() -> None:
    machine = Machine()

    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events"))
        gone = await machine.client()
        waiting = asyncio.create_task(gone.ask(fetch("events", wanted(), wait_ms=60_000), 12))
        await asyncio.sleep(0.1)
        gone.close()
        with pytest.raises(ConnectionError):
            await waiting
        await asyncio.sleep(0.1)
        assert not [task for task in asyncio.all_tasks() if task.get_name() == "request"]

    with_node(story, machine)


def test_a_session_goes_from_full_to_incremental_to_closed() -> None:
    async def story(client: Client) -> None:
        (topic,) = await create(client, new_topic("events", 2))
        key = topic.topic_id
        full = await client.ask(fetch(key, wanted(0), wanted(1), session=(0, 0)))
        session_id = full.session_id
        assert session_id > 0
        assert len(full.responses[0].partitions) == 2
        idle = await client.ask(fetch(key, session=(session_id, 1)))
        assert (idle.session_id, idle.responses) == (session_id, ())
        await client.ask(produce("events", batch(b"a"), partition=1), 9)
        grown = await client.ask(fetch(key, session=(session_id, 2)))
        assert only(grown).partition_index == 1
        assert values(only(grown).records) == [b"a"]
        closed = await client.ask(fetch(key, session=(session_id, -1)))
        assert (closed.error_code, closed.session_id, closed.responses) == (0, 0, ())
        gone = await client.ask(fetch(key, session=(session_id, 3)))
        assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert (gone.session_id, gone.responses) == (0, ())

    with_broker(story)


def test_a_long_poll_of_a_session_wakes_by_any_of_its_partitions() -> None:
    machine = Machine()

    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events", 50))
        producer = await machine.client()
        full = await client.ask(fetch("events", *map(wanted, range(50)), session=(0, 0)), 12)
        polled = fetch("events", wait_ms=5_000, session=(full.session_id, 1))
        polling = asyncio.create_task(client.ask(polled, 12))
        await asyncio.sleep(0.1)
        began_ms = now_ms()
        await producer.ask(produce("events", batch(b"a"), partition=37), 9)
        assert only(await polling).partition_index == 37
        assert now_ms() - began_ms < 50
        producer.close()

    with_node(story, machine)


def test_a_wrong_session_epoch_is_an_error_and_the_session_stays() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        full = await client.ask(fetch("events", wanted(), session=(0, 0)), 12)
        for version in (7, 12):
            wrong = await client.ask(
                fetch("events", wanted(), session=(full.session_id, 9)), version
            )
            assert wrong.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
            assert (wrong.session_id, wrong.responses) == (0, ())
        right = await client.ask(fetch("events", session=(full.session_id, 1)), 12)
        assert right.error_code == 0

    with_broker(story)


def test_without_slots_fetches_are_served_without_a_session() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        full = await client.ask(fetch("events", wanted(), session=(0, 0)), 12)
        assert (full.error_code, full.session_id) == (0, 0)

    with_broker(story, max_incremental_fetch_session_cache_slots="0")


def test_deleted_records_wake_parked_fetches() -> None:
    machine = Machine()

    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("events"))
        admin = await machine.client()
        await client.ask(produce("events", batch()), 9)
        full = await client.ask(fetch("events", wanted(0, 1), session=(0, 0)), 12)
        polled = fetch("events", wait_ms=5_000, session=(full.session_id, 1))
        polling = asyncio.create_task(client.ask(polled, 12))
        await asyncio.sleep(0.1)
        partition = DeletedPartition(partition_index=0, offset=-1)
        topic = DeletedTopic(name="events", partitions=(partition,))
        await admin.ask(DeleteRecordsRequest(topics=(topic,), timeout_ms=1_000))
        told = only(await polling)
        assert (told.log_start_offset, told.high_watermark) == (1, 1)
        admin.close()

    with_node(story, machine)


def test_the_brokers_limit_applies_to_every_fetch() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        for _ in range(8):
            await client.ask(produce("events", batch(bytes(400))), 9)
        response = await client.ask(fetch("events", wanted()), 12)
        assert len(values(only(response).records)) == 1024 // len(batch(bytes(400)))

    with_broker(story, fetch_max_bytes="1024")


def test_a_follower_is_refused_while_there_are_none() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        response = await client.ask(fetch("events", wanted(), replica_id=2), 12)
        assert only(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    with_broker(story)


def test_an_unknown_isolation_level_of_a_fetch_is_refused() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        response = await client.ask(fetch("events", wanted(), isolation=2), 12)
        assert response.error_code == ErrorCode.INVALID_REQUEST

    with_broker(story)


@pytest.mark.parametrize("cold_rate", [0.0, 0.5])
def test_large_slices_arrive_complete_also_from_a_cold_disk(cold_rate: float) -> None:
    machine = Machine(seed=5)
    sent = [bytes([number]) * 300_000 for number in range(12)]

    async def story(client: Client) -> None:
        await create(client, new_topic("events", 2))
        for index, value in enumerate(sent):
            await client.ask(produce("events", batch(value), partition=index % 2), 9)
        machine.disk.faults.rates = FaultRates(cold=cold_rate)
        response = await client.ask(fetch("events", wanted(0, bytes_max=9 << 20), wanted(1)), 12)
        first, second = response.responses[0].partitions
        assert values(first.records) == sent[0::2]
        assert values(second.records) == sent[1:7:2], "three whole ones fit into a MiB"

    with_broker(story, machine=machine)


def test_responses_keep_their_order_behind_a_long_poll() -> None:
    async def story(client: Client) -> None:
        await create(client, new_topic("events"))
        polled = framed(fetch("events", wanted(), wait_ms=300), 12, correlation_id=1)
        quick = [framed(ApiVersionsRequest(), 0, correlation_id=number) for number in range(2, 30)]
        first = await client.exchange(polled + b"".join(quick))
        rest = [await client.exchange(b"") for _ in quick]
        numbers = [decode_correlation_id(answer) for answer in (first, *rest)]
        assert numbers == list(range(1, 30))
        assert decode_response(first, APIS[1], 12).error_code == 0

    with_broker(story)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_real_disk_and_real_sockets_give_back_what_they_were_given(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    sent = [bytes([number]) * 200_000 for number in range(20)]

    async def story() -> None:
        given = {
            "log.dirs": str(tmp_path / "log"),
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "ottla.metrics.port": "0",
            "ottla.disk.reserve.bytes": "0",
            # The records have times of long ago.
            "log.retention.ms": "-1",
        }
        threads = RealThreads(1)
        seams = Seams(RealClock(), RealEntropy(), RealFiles(), RealNet(), threads, RealWorkers())
        node = Node(load(given=given, environment={}, file=None), seams, Notes())
        endpoints = await node.start()
        port = endpoints.kafka.port
        client = cast("Client", await RealNet().connect(Client, "127.0.0.1", port))
        await create(client, new_topic("events"))
        for value in sent:
            result = only(await client.ask(produce("events", batch(value, timestamp_ms=1)), 9))
            assert result.error_code == 0
        response = await client.ask(fetch("events", wanted(bytes_max=50 << 20)), 12)
        assert values(only(response).records) == sent
        client.close()
        await node.stop()
        threads.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(story())
