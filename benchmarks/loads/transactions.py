"""Transactional producers that send one transaction after another."""

from benchmarks.loads.coordinator import await_coordinator, await_transaction_coordinator
from benchmarks.loads.generators import generate
from benchmarks.loads.topics import OnTopic
from benchmarks.peers.peer import Peer
from benchmarks.row import Ran, Scope

RECORDS, RECORD_BYTES = 100, 100


class Transactions(OnTopic):
    """Transactions of 100 records of 100 B to 6 partitions, committed, as fast as answers arrive,
    or so many per second.

    With `has_offsets`, each transaction also commits an offset of one group that all producers
    share; each has a partition of its own in the topic that the group would read.
    """

    def __init__(
        self,
        *,
        producers: int,
        seconds: float,
        version: int = 2,
        has_offsets: bool = False,
        per_second: int | None = None,
    ) -> None:
        super().__init__(partitions=6)
        self.producers, self.seconds = producers, seconds
        self.version, self.has_offsets = version, has_offsets
        self.per_second = per_second
        self.source = f"{self.topic}-source"

    def prepare(self, peer: Peer, scope: Scope) -> None:
        await_transaction_coordinator(peer)
        if self.has_offsets:
            await_coordinator(peer)
            peer.create_topic(self.source, self.producers)
            peer.await_served(self.source, self.producers)
        super().prepare(peer, scope)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        by = (
            f"seconds@{self.per_second}" if self.per_second else "seconds",
            scope.seconds(self.seconds),
        )
        group = (f"{self.topic}-group", self.source) if self.has_offsets else ()
        records = (RECORDS, RECORD_BYTES, "commit")
        load = (self.topic, self.partitions, self.producers, self.topic, self.version, *records)
        said = generate("transactions", peer, *load, *by, *group)
        return Ran(figures=said, requests=said["requests"])

    def finish(self, peer: Peer) -> None:
        super().finish(peer)
        if self.has_offsets:
            peer.delete_topic(self.source)
