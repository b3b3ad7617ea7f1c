"""Produces with acks=all to partitions of three replicas: the CPU time of all three brokers.

Three nodes run in this process, on real disks, with their metadata and their connections in memory:
no time is spent on sockets. A client sends batches of 16 KB, and waits for its answers.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import Iterator

import uvloop

from benchmarks.parts.memory_net import HOST, MemoryNet
from benchmarks.parts.part import Part
from benchmarks.parts.three_brokers import BROKERS, add_topic, publisher_of, three_nodes
from ottla.broker.node.node import Node
from ottla.cli.broker.run import GC_THRESHOLDS
from ottla.metadata.memory import MemoryEnsemble
from ottla.protocol.batch import Record, build
from ottla.protocol.exchange import encode_request
from ottla.protocol.messages import APIS
from ottla.protocol.messages.produce import Partition, ProduceRequest, Topic
from ottla.seams.threads import RealThreads

PRODUCE_KEY, PRODUCE_VERSION = 0, 9
BATCH_BYTES = 16 << 10
BATCHES, WARM_UP_BATCHES = 6_000, 600
PARTITIONS = 6
# Each has one batch in flight: five batches per partition.
CONNECTIONS = 30
IDLE_PARTITIONS = 3_333
REPEATS = 3


def measure() -> Iterator[Part]:
    gc.set_threshold(*GC_THRESHOLDS)
    figures = []
    for _ in range(REPEATS):
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            figures.append(runner.run(_produce()))
    yield Part(
        name="a batch of 16 KB with acks=all to three replicas: CPU time of all three brokers",
        unit="ms",
        figures=tuple(figures),
        estimate=0.15,
        because="one append, two fetches and two copies, each with a checksum of 16 KB and a write",
    )


async def _produce() -> float:
    """The milliseconds of CPU time per batch."""
    net, threads = MemoryNet(), RealThreads(4)
    with tempfile.TemporaryDirectory() as directory:
        nodes = three_nodes(directory, MemoryEnsemble(), threads, net)
        try:
            endpoints = [await node.start() for node in nodes]
            publisher = publisher_of(nodes[0])
            await publisher.commit(lambda image: (add_topic(image, 0, PARTITIONS), None))
            await asyncio.sleep(1.0)
            ports = [each.kafka.port for each in endpoints]
            clients = [await _client(net, ports, index) for index in range(CONNECTIONS)]
            await _send(clients, WARM_UP_BATCHES)
            gc.collect()
            gc.freeze()
            began = time.process_time()
            await _send(clients, BATCHES)
            elapsed_s = time.process_time() - began
            _check(nodes)
            return 1e3 * elapsed_s / BATCHES
        finally:
            for node in reversed(nodes):
                await node.stop()
            threads.close()
            gc.unfreeze()


class _Client(asyncio.Protocol):
    """Sends one frame again and again, and counts the answers."""

    def __init__(self, frame: bytes) -> None:
        self._frame = frame
        self._answered = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 - asyncio's signature
        self._answered.set()

    async def send(self, count: int) -> None:
        if self._transport is None:
            raise RuntimeError("not connected")
        for _ in range(count):
            self._answered.clear()
            self._transport.write(self._frame)
            await self._answered.wait()


async def _client(net: MemoryNet, ports: list[int], index: int) -> _Client:
    """A client of the broker that leads the partition."""
    frame = _frame(index % PARTITIONS)
    made = await net.connect(lambda: _Client(frame), HOST, ports[index % BROKERS])
    if not isinstance(made, _Client):
        raise TypeError(made)
    return made


def _frame(index: int) -> bytes:
    value = bytes(100)
    records = [Record(offset, 0, None, value) for offset in range(BATCH_BYTES // 107)]
    request = ProduceRequest(
        transactional_id=None,
        acks=-1,
        timeout_ms=30_000,
        topic_data=(
            Topic(name="topic-0", partition_data=(Partition(index=index, records=build(records)),)),
        ),
    )
    parts = encode_request(1, APIS[PRODUCE_KEY], PRODUCE_VERSION, request, "bench")
    return b"".join(bytes(part) for part in parts)  # type: ignore[arg-type]


async def _send(clients: list[_Client], batches: int) -> None:
    await asyncio.gather(*[client.send(batches // len(clients)) for client in clients])


def _check(nodes: list[Node]) -> None:
    """All replicas have all records, and the leaders have committed them."""
    per_partition = (BATCHES + WARM_UP_BATCHES) // PARTITIONS * (BATCH_BYTES // 107)
    for node in nodes:
        for replica in node._replicas or ():
            if replica.end_offset != per_partition:
                raise RuntimeError(f"{replica.name} ends at {replica.end_offset}")
            if replica.partition.is_leader and replica.high_watermark != per_partition:
                raise RuntimeError(f"{replica.name}: committed {replica.high_watermark}")
