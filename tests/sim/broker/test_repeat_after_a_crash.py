"""A story that random faults seldom tell: only the page cache has what a client repeats."""

import asyncio

from ottla.protocol.messages.create_topics import CreateTopicsRequest
from tests.sim.broker.line import Line
from tests.sim.broker.machine import Machine
from tests.sim.broker.witness import Witness
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import new_topic

TOPIC = "orders"
VERSION = 9
STEPS_MAX = 10_000
# A power loss takes with it what it will: not always all.
SEEDS = range(10)


def numbered(sequence: int) -> bytearray:
    return batch(b"order %d" % sequence, producer_id=7, producer_epoch=0, base_sequence=sequence)


async def killed_between_append_and_flush(machine: Machine) -> None:
    """A broker with one acknowledged record, and one that it has only written."""
    await machine.start()
    line = await Line.open(machine, "client")
    await line.ask(CreateTopicsRequest(topics=(new_topic(TOPIC),)), 5)
    first = only(await line.ask(produce(TOPIC, numbered(0)), VERSION))
    assert (first.error_code, first.base_offset) == (0, 0)
    reply = line.send(produce(TOPIC, numbered(1)), VERSION)
    path = f"/data/{TOPIC}-0/{0:020d}.log"
    for _ in range(STEPS_MAX):
        if len(machine.disk.files()[path]) == 2 * len(numbered(0)):
            break
        await asyncio.sleep(0.0001)
    assert not reply.done()
    machine.kill()


async def stored_after_a_power_loss(machine: Machine) -> list[bytes | None]:
    """What is left once the client has repeated its batch and was told that it is safe."""
    await killed_between_append_and_flush(machine)
    await machine.start()
    line = await Line.open(machine, "client")
    repeated = only(await line.ask(produce(TOPIC, numbered(1)), VERSION))
    assert (repeated.error_code, repeated.base_offset) == (0, 1)
    machine.kill(loses_power=True)
    await machine.start()
    line = await Line.open(machine, "client")
    stored = values(only(await line.ask(fetch(TOPIC, wanted()), 12)).records)
    machine.kill()
    return stored


def tell(seed: int) -> list[bytes | None]:
    machine = Machine(seed, Witness(), **{"log.flush.interval.messages": "1"})
    return run(stored_after_a_power_loss(machine), clock=machine.clock)


def test_a_repeated_batch_is_flushed_before_it_is_acknowledged() -> None:
    assert all(tell(seed) == [b"order 0", b"order 1"] for seed in SEEDS)
