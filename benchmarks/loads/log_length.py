"""Fetches at the start, at the end and at random offsets of a log of a given length, all warm."""

from benchmarks import measuring
from benchmarks.loads import rdkafka
from benchmarks.loads.generators import MIB, generate
from benchmarks.loads.topics import OnTopic
from benchmarks.peers.peer import Peer
from benchmarks.row import Ran, Scope

WHERE = ("start", "end", "random")
FETCH_BYTES = 1 << 16
RECORD_BYTES = 1024


class FetchesAt(OnTopic):
    """Bytes read and CPU used by the broker per fetch, for each position."""

    def __init__(self, *, megabytes: int, fetches: int) -> None:
        super().__init__(partitions=1)
        self.megabytes, self.fetches = megabytes, fetches

    def fill(self, peer: Peer, scope: Scope) -> None:
        count = scope.count(self.megabytes * 1_000_000 // RECORD_BYTES)
        rdkafka.produce(peer, self.topic, count=count, size=RECORD_BYTES)
        generate("fetch", peer, self.topic, 0, MIB, "scan", self.megabytes * 2)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        fetches = scope.count(self.fetches)
        figures = {}
        for where in WHERE:
            bytes_before, cpu_before = measuring.read_bytes(peer.pid), measuring.cpu_s(peer.pid)
            generate("fetch", peer, self.topic, 0, FETCH_BYTES, where, fetches)
            read_bytes = measuring.read_bytes(peer.pid) - bytes_before
            cpu_s = measuring.cpu_s(peer.pid) - cpu_before
            figures[f"bytes_{where}"] = read_bytes / fetches
            figures[f"cpu_us_{where}"] = cpu_s * 1e6 / fetches
        return Ran(figures=figures)
