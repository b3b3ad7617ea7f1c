"""The Spark loads on topics of a broker: scans, streams, and latency."""

from benchmarks.loads.json_topic import PARTITIONS, JsonTopic
from benchmarks.loads.spark.process import SparkProcess, connector_jars
from benchmarks.loads.topics import OnTopic
from benchmarks.peers.peer import Peer
from benchmarks.row import Ran, Scope

# One session for both sources, so that Java is equally warm for both.
SPARK = SparkProcess("shared")
CONNECTOR, OURS = "kafka", "ottla"
RECORDS_PER_S = 50


class _OfJson:
    """A query over all records of a topic; it runs once before it is measured."""

    def __init__(self, source: str, records: JsonTopic) -> None:
        self.source, self.records = source, records
        self.topic = ""

    def prepare(self, peer: Peer, scope: Scope) -> None:
        connector_jars()  # Fails before the topic is filled, if the jars are missing.
        self.topic = self.records.fill(peer, scope)
        self.run(peer, scope)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        raise NotImplementedError

    def finish(self, peer: Peer) -> None:
        """The topic stays: other rows read it too."""

    def asked(self, scope: Scope) -> dict[str, object]:
        rows = scope.count(self.records.count)
        return {"source": self.source, "topic": self.topic, "rows": rows}


class Scan(_OfJson):
    """A batch query into a sink."""

    def __init__(self, source: str, records: JsonTopic, sink: str) -> None:
        super().__init__(source, records)
        self.sink = sink

    def run(self, peer: Peer, scope: Scope) -> Ran:
        said = SPARK.ask(peer, "scan", sink=self.sink, **self.asked(scope))
        rows = scope.count(self.records.count)
        return Ran(figures={"rate": rows / said["job_s"], "whole_rate": rows / said["whole_s"]})


class AvailableNow(_OfJson):
    """A streaming query that reads all existing records and ends."""

    def run(self, peer: Peer, scope: Scope) -> Ran:
        said = SPARK.ask(peer, "available_now", **self.asked(scope))
        rows = scope.count(self.records.count)
        figures = {"batch_rate": rows / said["batch_s"], "whole_rate": rows / said["whole_s"]}
        return Ran(figures=figures)


class Latency(OnTopic):
    """A streaming query with the default trigger, and a producer of few records per second."""

    def __init__(self, source: str, *, seconds: float, partitions: int = PARTITIONS) -> None:
        super().__init__(partitions)
        self.source, self.seconds = source, seconds

    def run(self, peer: Peer, scope: Scope) -> Ran:
        seconds = scope.seconds(self.seconds)
        asked = {"source": self.source, "topic": self.topic, "rate": RECORDS_PER_S}
        return Ran(figures=SPARK.ask(peer, "latency", seconds=seconds, **asked))


class WorkerMemory(_OfJson):
    """The largest Python worker of a scan, in a session with a new worker per task.

    A reused worker keeps its memory, which would hide the effect of a longer topic.
    """

    SPARK = SparkProcess("fresh-workers", {"spark.python.worker.reuse": "false"})

    def run(self, peer: Peer, scope: Scope) -> Ran:
        return Ran(figures=self.SPARK.ask(peer, "worker_memory", **self.asked(scope)))

    def finish(self, peer: Peer) -> None:  # noqa: ARG002 - the session does not belong to a broker
        self.SPARK.end()
