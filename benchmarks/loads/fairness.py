"""Small requests on a schedule, beside load that might delay them."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from benchmarks.loads import rdkafka
from benchmarks.loads.generators import MIB, SmallProduces, generate, generating
from benchmarks.loads.idle_connections import idle_connections
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Ran, Scope

SMALL_RATE = 1000
SMALL_CONNECTIONS = 10
SECONDS = 5.0
BULK_PRODUCERS = 4
# Just below the largest batch that a broker accepts by default.
BULK_RECORDS, BULK_RECORD_BYTES = 9000, 100
# A fixed rate, about 190 MB/s, so that a faster broker does not get more load.
BULK_RATE = 200
COLD_MESSAGES, COLD_MESSAGE_BYTES = 500_000, 1024

Disturbance = Callable[[Peer, "Beside", Scope], AbstractContextManager[None]]


class Beside(SmallProduces):
    """The latency of small requests during a `disturbance`, which has its own topic."""

    def __init__(self, disturbance: Disturbance, *, is_filled: bool = False) -> None:
        super().__init__(connections=SMALL_CONNECTIONS, seconds=SECONDS, rate=SMALL_RATE)
        self.disturbance, self.is_filled = disturbance, is_filled
        self.other_topic = f"{self.topic}-beside"

    def fill(self, peer: Peer, scope: Scope) -> None:
        peer.create_topic(self.other_topic, BULK_PRODUCERS)
        peer.await_served(self.other_topic, BULK_PRODUCERS)
        if self.is_filled:
            count, size = scope.count(COLD_MESSAGES), COLD_MESSAGE_BYTES
            # All records go to the partition that the reader reads.
            rdkafka.produce(peer, self.other_topic, count=count, size=size, partition=0)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        with self.disturbance(peer, self, scope):
            return super().run(peer, scope)

    def finish(self, peer: Peer) -> None:
        super().finish(peer)
        peer.delete_topic(self.other_topic)


def nothing(_peer: Peer, _load: Beside, _scope: Scope) -> AbstractContextManager[None]:
    return nullcontext()


def bulk_producers(peer: Peer, load: Beside, scope: Scope) -> AbstractContextManager[None]:
    # Runs longer than the small requests, and is ended with them.
    seconds = scope.seconds(SECONDS) + 60
    size = (BULK_RECORD_BYTES, BULK_RECORDS, BULK_RATE)
    return generating(
        "produce", peer, load.other_topic, BULK_PRODUCERS, BULK_PRODUCERS, seconds, *size
    )


def many_idle(peer: Peer, _load: Beside, scope: Scope) -> AbstractContextManager[None]:
    return idle_connections(peer, scope.count(2000))


@contextmanager
def cold_reader(peer: Peer, load: Beside, _scope: Scope) -> Iterator[None]:
    """A consumer that reads a log repeatedly, each time after it was evicted from the cache."""
    is_over = threading.Event()
    troubles: list[Exception] = []

    def read() -> None:
        try:
            while not is_over.is_set():
                _evict(peer, load.other_topic)
                generate("fetch", peer, load.other_topic, 0, MIB, "scan", 1_000_000)
        except (LoadFailed, OSError) as error:
            troubles.append(error)

    reader = threading.Thread(target=read, name="cold-reader")
    reader.start()
    try:
        yield
    finally:
        is_over.set()
        reader.join()
    if troubles:
        raise LoadFailed(f"the cold reader failed: {troubles[0]}")


def _evict(peer: Peer, topic: str) -> None:
    for path in peer.log_directory.glob(f"{topic}-*/*.log"):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # dirty pages cannot be evicted
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)
