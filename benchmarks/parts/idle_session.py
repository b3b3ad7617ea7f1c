"""A follower's fetch of many idle partitions, in its session: the leader's CPU time.

Three nodes run in this process, with their metadata and their connections in memory. The fetches
are those of a follower of 3,333 partitions that one of them leads, and nothing is produced.
"""

import asyncio
import gc
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import uvloop

from benchmarks.parts.memory_net import HOST, MemoryNet
from benchmarks.parts.part import Part
from benchmarks.parts.three_brokers import add_topic, publisher_of, three_nodes
from ottla.address import Address
from ottla.broker.node.node import Node
from ottla.cli.broker.run import GC_THRESHOLDS
from ottla.client.connection.connection import connect
from ottla.client.options import ClientOptions
from ottla.metadata.image import Image
from ottla.metadata.memory import MemoryEnsemble
from ottla.metadata.values import PartitionId
from ottla.native import replica_fetch
from ottla.protocol.messages import APIS
from ottla.protocol.messages.fetch import FetchResponse
from ottla.replication.following.session import FetchBounds, FollowerSession, PlannedFetch, Position
from ottla.seams.threads import RealThreads

FETCH = APIS[1]
CLIENT_ID = b"broker-2-fetcher"
TIMEOUT_MS = 30_000
TOPICS, PARTITIONS = 100, 100
FETCHES = 2_000
REPEATS = 3
AT_ONCE = FetchBounds(wait_ms_max=0, bytes_min=1, response_bytes_max=1 << 20, partition_bytes_max=1)


def measure() -> Iterator[Part]:
    gc.set_threshold(*GC_THRESHOLDS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        figures = runner.run(_fetches())
    yield Part(
        name="a follower's fetch of 3,333 idle partitions, on both ends",
        unit="us",
        figures=figures,
        estimate=150.0,
        because="a request and an answer without partitions; at most 200 us",
    )


async def _fetches() -> tuple[float, ...]:
    net, threads = MemoryNet(), RealThreads(4)
    with tempfile.TemporaryDirectory() as directory:
        nodes = three_nodes(directory, MemoryEnsemble(), threads, net)
        try:
            endpoints = [await node.start() for node in nodes]
            publisher = publisher_of(nodes[0])
            for number in range(TOPICS):
                await publisher.commit(
                    lambda image, number=number: (add_topic(image, number, PARTITIONS), None)
                )
            # The other brokers' fetchers know their partitions by then.
            await asyncio.sleep(2.0)
            _stop_fetching(nodes[1])
            await asyncio.sleep(2.0)
            address = Address(HOST, endpoints[0].kafka.port)
            connection = await connect(cast("Any", net), address, ClientOptions())
            session = _session(publisher.image)
            while True:
                request = session.request(AT_ONCE)
                response = await connection.ask(request.message())
                session.answered(cast("FetchResponse", response).session_id)
                if not request.topics:
                    break
            return tuple([await _timed(connection, session) for _ in range(REPEATS)])
        finally:
            for node in reversed(nodes):
                await node.stop()
            threads.close()


def _stop_fetching(node: Node) -> None:
    """The broker stays registered. Its session with each leader is left to the benchmark."""
    if node._replicas is None:
        raise RuntimeError("the node is not started")
    node._replicas.me.incarnation = None


def _session(image: Image) -> FollowerSession:
    """The session of broker 2 with broker 1, which leads a third of the partitions."""
    session = FollowerSession(image.brokers[2].incarnation)
    for name in sorted(image.topic_names):
        topic = image.topic(name)
        for partition in () if topic is None else image.partitions(topic.topic_id):
            if partition.leader is not None and partition.leader.broker_id == 1:
                session.put(
                    PartitionId(partition.topic_id, partition.index),
                    Position(partition.leader_epoch, 0, -1, 0),
                )
    return session


async def _timed(connection: Any, session: FollowerSession) -> float:
    began = time.process_time()
    for _ in range(FETCHES):
        encode = partial(_encoded, session.request(AT_ONCE))
        frame = await connection.ask_encoded(FETCH, replica_fetch.VERSION, encode, TIMEOUT_MS)
        answer = replica_fetch.read_answer(frame)
        if answer is None or answer[1]:
            raise RuntimeError(bytes(frame))
        session.answered(answer[0])
    return 1e6 * (time.process_time() - began) / FETCHES


def _encoded(request: PlannedFetch, correlation_id: int) -> bytearray:
    replica, limits, session, topics, _ = request
    return replica_fetch.write_request(correlation_id, CLIENT_ID, replica, limits, session, topics)
