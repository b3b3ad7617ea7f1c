"""Fetches of cold data: a thread waits for the disk, and the event loop does not."""

import asyncio
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.list_offsets import ListOffsetsRequest, Partition, Topic
from tests.sim.seams.faults import FaultRates
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import (
    NOW_MS,
    batch,
    fetch,
    only,
    produce,
    values,
    wanted,
)
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

COUNT = 80
SEGMENTED = {"segment.bytes": "1048576", "index.interval.bytes": "4096"}


def value(number: int) -> bytes:
    return b"%06d" % number + bytes(40_000)


def time_of(number: int) -> int:
    return NOW_MS + number * 1_000


async def fill(client: Client) -> None:
    await create(client, new_topic("events", configs=SEGMENTED))
    for number in range(COUNT):
        sent = batch(value(number), timestamp_ms=time_of(number))
        await client.ask(produce("events", sent), 9)


def by_time(timestamp_ms: int) -> ListOffsetsRequest:
    asked = Partition(partition_index=0, timestamp=timestamp_ms)
    return ListOffsetsRequest(replica_id=-1, topics=(Topic(name="events", partitions=(asked,)),))


async def offset_at(client: Client, timestamp_ms: int) -> tuple[int, int]:
    answer = only(await client.ask(by_time(timestamp_ms), 7))
    return answer.error_code, answer.offset


def records_of(response: Any) -> list[bytes]:
    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.NONE
    return values(partition.records)


def test_cold_data_is_fetched_and_searched_without_the_loop_waiting_for_the_disk() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            await fill(client)
        # A new broker has no recent batches in memory.
        async with machine.broker() as client:
            waited = machine.disk.pages_waited_for
            for number in range(0, COUNT, 9):
                machine.disk.chill("*events*")
                read = await client.ask(fetch("events", wanted(0, number, bytes_max=90_000)), 12)
                assert records_of(read)[0] == value(number)
                machine.disk.chill("*events*")
                assert await offset_at(client, time_of(number)) == (0, number)
            machine.disk.chill("*events*")
            assert await offset_at(client, -3) == (0, COUNT - 1)
            assert machine.disk.pages_waited_for == waited

    run(story(), clock=machine.clock)


@pytest.mark.parametrize("what", ["fetch", "search"])
def test_other_clients_are_answered_while_one_waits_for_cold_pages(what: str) -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            await fill(client)
        async with machine.broker() as client:
            other = await machine.client()
            machine.disk.chill("*events*")
            machine.threads.hold()
            request = fetch("events", wanted(0, 40)) if what == "fetch" else by_time(time_of(40))
            version = 12 if what == "fetch" else 7
            asking = asyncio.create_task(client.ask(request, version))
            while not machine.threads.waiting:
                await other.ask(ApiVersionsRequest(), 0)
            for _ in range(20):
                answer = await other.ask(ApiVersionsRequest(), 0)
                assert answer.error_code == ErrorCode.NONE
            assert not asking.done()
            machine.threads.release()
            answer = await asking
            if what == "fetch":
                assert records_of(answer)[0] == value(40)
            else:
                assert only(answer).offset == 40
            other.close()

    run(story(), clock=machine.clock)


def test_a_client_that_disconnects_while_it_waits_for_cold_pages_has_no_effect() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            await fill(client)
        async with machine.broker() as client:
            machine.disk.chill("*events*")
            machine.threads.hold()
            for _ in range(5):
                gone = await machine.client()
                await gone.send(fetch("events", wanted(0, 40), wait_ms=100), 12)
                await client.ask(ApiVersionsRequest(), 0)
                gone.close()
            machine.threads.release()
            read = await client.ask(fetch("events", wanted(0, 40)), 12)
            assert records_of(read)[0] == value(40)

    run(story(), clock=machine.clock)


def test_a_long_poll_that_begins_in_cold_data_is_woken_like_any_other() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            await fill(client)
        async with machine.broker() as client:
            producer = await machine.client()
            machine.disk.chill("*events*")
            asked = fetch("events", wanted(0, COUNT - 1), wait_ms=600_000, bytes_min=60_000)
            asking = asyncio.create_task(client.ask(asked, 12))
            await asyncio.sleep(1)
            assert not asking.done()
            began_ms = machine.clock.wall_ms()
            await producer.ask(produce("events", batch(value(COUNT))), 9)
            assert records_of(await asking) == [value(COUNT - 1), value(COUNT)]
            assert machine.clock.wall_ms() - began_ms < 1_000
            producer.close()

    run(story(), clock=machine.clock)


@pytest.mark.parametrize("seed", range(6))
def test_page_cache_changes_do_not_change_responses(seed: int) -> None:
    machine = Machine(seed)

    async def story() -> None:
        async with machine.broker() as client:
            await fill(client)
        async with machine.broker() as client:
            machine.disk.faults.rates = FaultRates(cold=0.5)
            found: list[bytes] = []
            while len(found) < COUNT:
                read = await client.ask(
                    fetch("events", wanted(0, len(found), bytes_max=200_000)), 12
                )
                found += records_of(read)
                assert await offset_at(client, time_of(len(found) - 1)) == (0, len(found) - 1)
            assert found == [value(number) for number in range(COUNT)]

    run(story(), clock=machine.clock)
