"""The machine dies at any operation of a retention round or a DeleteRecords over many partitions.

Afterwards a partition starts where it started or where it was to start, and from there on all is as
it was written: no log is offline, and none has a hole.
"""

import asyncio

import pytest

from ottla.protocol.messages.delete_records import DeleteRecordsRequest, Partition, Topic
from ottla.protocol.messages.list_offsets import ListOffsetsRequest
from ottla.protocol.messages.list_offsets import Partition as ListPartition
from ottla.protocol.messages.list_offsets import Topic as ListTopic
from tests.sim.broker.power_switch import PowerSwitch
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

PARTITIONS = 5
SEGMENTS = 4
# What is left of each partition: one segment.
KEPT = SEGMENTS - 1
CHECK_MS = 10_000
SETTINGS = {
    "log_dirs": "/a,/b",
    "log_retention_check_interval_ms": str(CHECK_MS),
    "connections_max_idle_ms": "86400000",
}
CONFIGS: dict[str, str | None] = {
    "segment.ms": "1000",
    "retention.ms": "60000",
    "flush.messages": "1",
    "file.delete.delay.ms": "1000",
}


async def fill(machine: Machine, client: Client) -> None:
    await create(client, new_topic("events", PARTITIONS, configs=CONFIGS))
    now_ms = machine.clock.wall_ms()
    for number in range(SEGMENTS):
        age_ms = 0 if number == KEPT else 300_000 - 10_000 * number
        sent = batch(str(number).encode(), timestamp_ms=now_ms - age_ms)
        for answer in (
            (await client.ask(produce("events", *(sent for _ in range(PARTITIONS)), acks=-1), 9))
            .responses[0]
            .partition_responses
        ):
            assert answer.error_code == 0


def deletion() -> DeleteRecordsRequest:
    partitions = tuple(Partition(partition_index=index, offset=KEPT) for index in range(PARTITIONS))
    return DeleteRecordsRequest(
        topics=(Topic(name="events", partitions=partitions),), timeout_ms=1_000
    )


async def starts_of(client: Client) -> list[int]:
    partitions = tuple(
        ListPartition(partition_index=index, current_leader_epoch=-1, timestamp=-2)
        for index in range(PARTITIONS)
    )
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=(ListTopic(name="events", partitions=partitions),)
    )
    answers = (await client.ask(request, 5)).topics[0].partitions
    assert [answer.error_code for answer in answers] == [0] * PARTITIONS
    return [answer.offset for answer in answers]


async def first_life(machine: Machine, switch: PowerSwitch, count: int, by: str) -> bool:
    """Whether it was told that the records are deleted."""
    node = machine.node(**SETTINGS)
    await node.start()
    client = await machine.client()
    await fill(machine, client)
    switch.arm(count)
    if by == "DeleteRecords":
        asking = asyncio.ensure_future(client.ask(deletion()))
        while not asking.done() and not switch.is_off:
            await asyncio.sleep(0.001)
        asking.cancel()
        was_told = asking.done() and not asking.cancelled() and not switch.is_off
    else:
        await asyncio.sleep(CHECK_MS / 1000 + 2)
        was_told = False
    switch.disarm()
    assert machine.files is not None
    machine.files.crash()
    return was_told


async def second_life(machine: Machine, was_told: bool) -> list[int]:
    async with machine.broker(**SETTINGS) as client:
        starts = await starts_of(client)
        for index, start in enumerate(starts):
            assert start == KEPT if was_told else start in (0, KEPT)
            found: list[bytes | None] = []
            while start + len(found) < SEGMENTS:
                request = fetch("events", wanted(index, start + len(found)))
                found += values(only(await client.ask(request, 12)).records)
            assert found == [str(each).encode() for each in range(start, SEGMENTS)]
        assert "log offline" not in machine.notes.events("error")
        return starts


def lives(seed: int, count: int, by: str) -> tuple[bool, list[int]]:
    """Whether the power was lost in the middle, and where the partitions start afterwards."""
    machine = Machine(seed)
    switch = PowerSwitch(machine)
    was_told = run(first_life(machine, switch, count, by), clock=machine.clock)
    machine.net.power_loss()
    machine.disk.power_loss()
    machine.net.boot()
    return switch.is_off, run(second_life(machine, was_told), clock=machine.clock)


@pytest.mark.parametrize("by", ["retention", "DeleteRecords"])
def test_a_power_loss_at_any_operation_leaves_each_partition_whole(by: str) -> None:
    ends = []
    for count in range(1_000):
        is_off, starts = lives(count, count, by)
        ends.append(starts)
        if not is_off:
            break
    else:
        pytest.fail("it never ended")
    # Some died before the first directory's checkpoint, some between the two, some after both.
    assert [0] * PARTITIONS in ends
    assert any(0 in starts and KEPT in starts for starts in ends)
    assert [KEPT] * PARTITIONS in ends
