"""The machine dies at any operation while a topic is deleted, made anew and written to.

Afterwards the name stands for the old topic with all of its records, for the new one with all that
were acknowledged, or for none. Nothing of the old topic is in the new one.
"""

import asyncio
from dataclasses import dataclass, field

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.sim.broker.power_switch import PowerSwitch
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, produce, values, wanted
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

PARTITIONS = 3
SETTINGS = {"log_dirs": "/a,/b", "connections_max_idle_ms": "86400000"}
CONFIGS: dict[str, str | None] = {"flush.messages": "1"}
OLD = [b"old-%d" % number for number in range(5)]
NEW = [b"new-%d" % number for number in range(3)]


@dataclass
class Told:
    """What the client knows when the machine dies."""

    is_deleted: bool = False
    acknowledged: list[int] = field(default_factory=lambda: [0] * PARTITIONS)


async def write(client: Client, content: bytes, told: Told | None = None) -> None:
    sent = batch(content)
    request = produce("events", *(sent for _ in range(PARTITIONS)), acks=-1)
    response = await client.ask(request, 9)
    for answer in response.responses[0].partition_responses:
        if told is None:
            assert answer.error_code == ErrorCode.NONE
        elif answer.error_code == ErrorCode.NONE:
            told.acknowledged[answer.index] += 1


async def replace_topic(client: Client, switch: PowerSwitch, told: Told) -> None:
    deletion = DeleteTopicsRequest(topic_names=("events",), timeout_ms=5_000)
    response = await client.ask(deletion, 5)
    told.is_deleted = response.responses[0].error_code == ErrorCode.NONE and not switch.is_off
    await create(client, new_topic("events", PARTITIONS, configs=CONFIGS))
    for content in NEW:
        before = list(told.acknowledged)
        await write(client, content, told)
        if switch.is_off:
            # What it says after its end nobody hears.
            told.acknowledged = before
            return


async def first_life(machine: Machine, switch: PowerSwitch, count: int) -> Told:
    node = machine.node(**SETTINGS)
    await node.start()
    client = await machine.client()
    await create(client, new_topic("events", PARTITIONS, configs=CONFIGS))
    for content in OLD:
        await write(client, content)
    told = Told()
    switch.arm(count)
    replacing = asyncio.ensure_future(replace_topic(client, switch, told))
    while not replacing.done() and not switch.is_off:
        await asyncio.sleep(0.001)
    replacing.cancel()
    await asyncio.gather(replacing, return_exceptions=True)
    switch.disarm()
    assert machine.files is not None
    machine.files.crash()
    return told


async def second_life(machine: Machine, told: Told) -> str:
    """Which topic has the name."""
    async with machine.broker(**SETTINGS) as client:
        request = fetch("events", *(wanted(index) for index in range(PARTITIONS)))
        answers = (await client.ask(request, 12)).responses[0].partitions
        assert "log offline" not in machine.notes.events("error")
        codes = {answer.error_code for answer in answers}
        if codes == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}:
            assert told.acknowledged == [0] * PARTITIONS
            return "none"
        assert codes == {ErrorCode.NONE}
        found = [values(answer.records) for answer in answers]
        if found == [OLD] * PARTITIONS:
            assert not told.is_deleted
            return "old"
        for each, count in zip(found, told.acknowledged, strict=True):
            assert each == NEW[: len(each)]
            assert len(each) >= count
        await write(client, b"later")
        return "new"


def lives(seed: int, count: int) -> tuple[bool, str]:
    machine = Machine(seed)
    switch = PowerSwitch(machine)
    told = run(first_life(machine, switch, count), clock=machine.clock)
    machine.net.power_loss()
    machine.disk.power_loss()
    machine.net.boot()
    return switch.is_off, run(second_life(machine, told), clock=machine.clock)


def test_a_power_loss_at_any_operation_mixes_no_deleted_topic_with_the_new_one() -> None:
    ends = []
    for count in range(1_000):
        is_off, end = lives(count, count)
        ends.append(end)
        if not is_off:
            break
    else:
        pytest.fail("it never ended")
    assert {*ends} == {"old", "none", "new"}
    assert ends[-1] == "new"
