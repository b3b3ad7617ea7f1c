"""Kafka's own ProducerPerformance: the Java producer at full speed."""

import re

from benchmarks.loads.tools import output_of
from benchmarks.loads.topics import OnTopic
from benchmarks.peers.kafka import jars
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Ran, Scope

JVM = ("java", "-Xmx512m", "-Dlog4j2.level=ERROR")
TOOL = "org.apache.kafka.tools.ProducerPerformance"
BATCH_16_KB = ("batch.size=16384",)  # the client's default
BATCH_1_MB = ("batch.size=1000000", "linger.ms=20")
# The last line of the tool's output is about the whole run.
SENT = re.compile(r"(\d+) records sent, ([\d.]+) records/sec")


class Produce(OnTopic):
    """One producer that sends `count` messages of `size` bytes as fast as it can.

    With `transaction_ms`, it commits a transaction whenever that time is over.
    """

    def __init__(
        self,
        *,
        count: int,
        size: int,
        partitions: int,
        settings: tuple[str, ...],
        transaction_ms: int = 0,
    ) -> None:
        super().__init__(partitions)
        self.count, self.size, self.settings = count, size, settings
        self.transaction_ms = transaction_ms

    def run(self, peer: Peer, scope: Scope) -> Ran:
        count = scope.count(self.count)
        command = [*JVM, "-cp", jars(), TOOL, "--bootstrap-server", peer.address]
        command += ["--topic", self.topic, "--num-records", str(count)]
        command += ["--record-size", str(self.size), "--throughput", "-1"]
        if self.transaction_ms:
            command += ["--transactional-id", self.topic]
            command += ["--transaction-duration-ms", str(self.transaction_ms)]
        found = SENT.findall(printed := output_of([*command, "--command-property", *self.settings]))
        if not found or int(found[-1][0]) != count:
            raise LoadFailed(f"ProducerPerformance: {printed.strip()[-300:]}")
        return Ran(figures={"rate": float(found[-1][1])}, payload_bytes=count * self.size)
