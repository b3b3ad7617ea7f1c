"""All producers at full speed for minutes: no live broker may be taken for dead."""

import time
from concurrent.futures import ThreadPoolExecutor

from benchmarks.loads import rdkafka
from benchmarks.loads.asking import Asking
from benchmarks.peers.peer import Peer
from benchmarks.row import Ran, Scope
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic

PRODUCERS = 4
PARTITIONS = 6
RECORDS, RECORD_BYTES = 500_000, 1024
METADATA_VERSION = 7


class Steadiness:
    """Producers send to one topic after another, so that the disks do not fill.

    Counts new leader epochs: an election follows whenever the session of a broker has ended.
    """

    def __init__(self, *, seconds: float) -> None:
        self.seconds = seconds
        self._topics = 0

    def prepare(self, _peer: Peer, _scope: Scope, /) -> None:
        """Nothing: each round creates its topic."""

    def finish(self, peer: Peer) -> None:
        """Nothing: each round deletes its topic."""

    def run(self, peer: Peer, scope: Scope) -> Ran:
        began_s, elections, rounds = time.monotonic(), 0, 0
        while time.monotonic() - began_s < scope.seconds(self.seconds):
            elections += self._round(peer)
            rounds += 1
        sent = rounds * PRODUCERS * RECORDS
        rate = sent / (time.monotonic() - began_s)
        return Ran(
            figures={"elections": elections, "rate": rate}, payload_bytes=sent * RECORD_BYTES
        )

    def _round(self, peer: Peer) -> int:
        self._topics += 1
        topic = f"steady-{self._topics}"
        peer.create_topic(topic, PARTITIONS)
        peer.await_served(topic, PARTITIONS)
        try:
            before = _leader_epochs(peer, topic)
            with ThreadPoolExecutor(PRODUCERS) as producers:
                list(producers.map(lambda _: _produce(peer, topic), range(PRODUCERS)))
            return _leader_epochs(peer, topic) - before
        finally:
            peer.delete_topic(topic)


def _produce(peer: Peer, topic: str) -> None:
    settings = (*rdkafka.BATCH_16_KB, "enable.idempotence=true")
    rdkafka.produce(peer, topic, count=RECORDS, size=RECORD_BYTES, acks=-1, settings=settings)


def _leader_epochs(peer: Peer, topic: str) -> int:
    """The sum over all partitions: each election adds one."""
    request = MetadataRequest(topics=(RequestedTopic(name=topic),), allow_auto_topic_creation=False)
    with Asking(peer) as asking:
        (found,) = asking.ask(request, METADATA_VERSION).topics
    return sum(partition.leader_epoch for partition in found.partitions)
