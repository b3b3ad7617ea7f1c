"""The death of one broker of three that share 10,000 partitions: decided, committed and applied.

Three nodes run in this process, on real disks and sockets, with their metadata in memory. Each
partition has three replicas. The time runs from the end of the broker's session until both others
have applied the last record that follows from it.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import Iterator, Sequence

import uvloop

from benchmarks.parts.part import Part
from benchmarks.parts.three_brokers import BROKERS, Stores, add_topic, make_node, publisher_of
from ottla.broker.node.node import Node
from ottla.cli.broker.run import GC_THRESHOLDS
from ottla.metadata.image import Image
from ottla.metadata.memory import MemoryEnsemble
from ottla.metadata.publisher import Publisher
from ottla.seams.net import RealNet
from ottla.seams.threads import RealThreads

TOPICS, PARTITIONS = 100, 100
REPEATS = 3
STALL_CHECK_S = 0.001
SETTLING_S = 3.0


def measure() -> Iterator[Part]:
    deaths = []
    # As in a broker's own process.
    gc.set_threshold(*GC_THRESHOLDS)
    for _ in range(REPEATS):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            deaths.append(runner.run(_death()))
    what = f"a broker of three dies, {TOPICS * PARTITIONS:,} partitions"
    yield Part(
        name=f"{what}: decided, committed and applied",
        unit="s",
        figures=tuple(seconds for seconds, _ in deaths),
        estimate=1.2,
        because="16 us to decide, 12 us to encode, and as much again for a snapshot, 12 us for "
        "each broker to decode and 20 us to apply each record; at most 2 s",
    )
    yield Part(
        name=f"{what}: the longest stall of the event loop that all three share",
        unit="ms",
        figures=tuple(stall_s * 1e3 for _, stall_s in deaths),
        estimate=40.0,
        because="500 records per entry, one step after another; at most 50 ms",
    )


async def _death() -> tuple[float, float]:
    """The seconds that it takes, and the longest stall meanwhile."""
    ensemble = MemoryEnsemble()
    stores = [Stores(ensemble) for _ in range(BROKERS)]
    threads = RealThreads(4)
    with tempfile.TemporaryDirectory() as directory:
        nodes = [
            make_node(number, f"{directory}/{number}", each, threads, RealNet())
            for number, each in enumerate(stores, start=1)
        ]
        try:
            for node in nodes:
                await node.start()
            await _create_topics(publisher_of(nodes[0]))
            # The fetchers know all of their partitions.
            await asyncio.sleep(SETTLING_S)
            # As after a start with these partitions.
            gc.collect()
            gc.freeze()
            await _die(nodes[-1])
            return await _expire(ensemble, stores[-1], [publisher_of(node) for node in nodes[:-1]])
        finally:
            for node in reversed(nodes):
                await node.stop()
            threads.close()
            gc.unfreeze()


async def _create_topics(publisher: Publisher) -> None:
    for number in range(TOPICS):
        await publisher.commit(
            lambda image, number=number: (add_topic(image, number, PARTITIONS), None)
        )


async def _die(node: Node) -> None:
    """Ends all that the broker does, as the end of its process would. Its session lasts."""
    for listener in node._listeners:
        await listener.close()
    if node._connections is not None and node._inter_broker is not None:
        node._connections.end_all("dead")
        node._inter_broker.close()
    await node._tasks.close()
    # It hands over nothing when it is stopped.
    node.fault.set_result(RuntimeError("dead"))


async def _expire(
    ensemble: MemoryEnsemble, dead: Stores, others: Sequence[Publisher]
) -> tuple[float, float]:
    if dead.store is None:
        raise RuntimeError("the broker is not started")
    dead_id = BROKERS
    stalls = _Stalls()
    watching = asyncio.create_task(stalls.watch())
    started = time.perf_counter()
    ensemble.expire(dead.store)
    for publisher in others:
        await publisher.until(lambda image: _is_gone(image, dead_id))
    elapsed_s = time.perf_counter() - started
    watching.cancel()
    return elapsed_s, stalls.longest_s


def _is_gone(image: Image, broker_id: int) -> bool:
    """Looks at the last partition first: it is the last one that changes."""
    for number in reversed(range(TOPICS)):
        topic = image.topic(f"topic-{number}")
        for partition in reversed(image.partitions(topic.topic_id) if topic is not None else ()):
            if any(member.broker_id == broker_id for member in partition.isr):
                return False
    return True


class _Stalls:
    """Measures the longest step of the event loop."""

    def __init__(self) -> None:
        self.longest_s = 0.0

    async def watch(self) -> None:
        while True:
            due = time.perf_counter() + STALL_CHECK_S
            await asyncio.sleep(STALL_CHECK_S)
            self.longest_s = max(self.longest_s, time.perf_counter() - due)
