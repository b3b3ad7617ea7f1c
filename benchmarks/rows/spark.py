"""Spark: our source compared with Spark's Kafka connector, both on our broker, in one session."""

from dataclasses import dataclass

from benchmarks.comparing import Hold, at_least, at_most
from benchmarks.loads.json_topic import JsonTopic
from benchmarks.loads.spark.loads import (
    CONNECTOR,
    OURS,
    AvailableNow,
    Latency,
    Scan,
    WorkerMemory,
)
from benchmarks.loads.spark.process import CONNECTOR_VERSION
from benchmarks.row import Figure, Row

RECORDS = 5_000_000
BASE_NAME = f"connector {CONNECTOR_VERSION}"
# In a short query the time for planning and starting hides the time for rows.
SHORT_SHARE, SHORT_STREAM_SHARE = 0.2, 0.3
BECAUSE_SCAN = (
    "one Arrow batch per fetch of 4 MB, built by compiled code, where the connector builds a row "
    "per record; the limit is the JVM that takes the batches"
)
BECAUSE_LZ4 = "as without lz4, but decompression takes our worker as long as all its other work"
BECAUSE_SINK = "the scan gains, but Spark's own work after it is the same for both and dominates"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    name: str
    sink: str
    codec: str
    hold: Hold | None
    estimate: float
    because: str
    short_share: float = SHORT_SHARE

    def row(self) -> Row:
        records = JsonTopic(RECORDS, self.codec)
        held = Figure(
            name="rate",
            unit="rows/s of the job",
            hold=self.hold,
            estimate=self.estimate,
            because=self.because,
        )
        whole = Figure(
            name="whole_rate",
            unit="rows/s, planning included",
            hold=None,
            estimate=self.estimate,
            because="as the job: planning and starting are short in comparison",
        )
        return Row(
            group="spark",
            name=self.name,
            load=Scan(OURS, records, self.sink),
            base=Scan(CONNECTOR, records, self.sink),
            base_name=BASE_NAME,
            figures=(held, whole),
            short_share=self.short_share,
        )


SCANS = (
    _Case(
        name="count",
        sink="count",
        codec="none",
        hold=at_least(2.5),
        estimate=3.0,
        because=BECAUSE_SCAN,
    ),
    _Case(
        name="all columns to noop",
        sink="noop",
        codec="none",
        hold=at_least(2.5),
        estimate=2.9,
        because=BECAUSE_SCAN,
    ),
    _Case(
        name="count, lz4",
        sink="count",
        codec="lz4",
        hold=at_least(2.0),
        estimate=2.6,
        because=BECAUSE_LZ4,
        short_share=0,
    ),
    _Case(
        name="all columns to noop, lz4",
        sink="noop",
        codec="lz4",
        hold=at_least(2.0),
        estimate=2.2,
        because=BECAUSE_LZ4,
    ),
    _Case(
        name="to Parquet",
        sink="parquet",
        codec="none",
        hold=at_least(1.0),
        estimate=1.2,
        because=BECAUSE_SINK,
        short_share=0,
    ),
    _Case(
        name="from_json of 6 fields to noop",
        sink="json",
        codec="none",
        hold=at_least(0.95),
        estimate=1.4,
        because=BECAUSE_SINK,
        short_share=0,
    ),
    _Case(
        name="to Parquet, lz4",
        sink="parquet",
        codec="lz4",
        hold=at_least(1.0),
        estimate=1.4,
        because=BECAUSE_SINK,
        short_share=0,
    ),
    _Case(
        name="from_json of 6 fields to noop, lz4",
        sink="json",
        codec="lz4",
        hold=at_least(0.95),
        estimate=1.2,
        because=BECAUSE_SINK,
        short_share=0,
    ),
)

STREAM = Row(
    group="spark",
    name="stream, availableNow, to noop",
    load=AvailableNow(OURS, JsonTopic(RECORDS)),
    base=AvailableNow(CONNECTOR, JsonTopic(RECORDS)),
    base_name=BASE_NAME,
    figures=(
        Figure(
            name="batch_rate",
            unit="rows/s of the micro-batch",
            hold=at_least(2.0),
            estimate=2.4,
            because="as a scan, plus a separate job",
        ),
        Figure(
            name="whole_rate",
            unit="rows/s, start to end of the query",
            hold=at_least(1.3),
            estimate=1.5,
            because="both take about 1.5 s to start and stop a query",
        ),
    ),
    short_share=SHORT_STREAM_SHARE,
)


def _latency(partitions: int, p50: float, short_share: float) -> Row:
    plural = "s" if partitions > 1 else ""
    return Row(
        group="spark",
        name=f"stream, 50 records/s to foreachBatch, {partitions} partition{plural}",
        load=Latency(OURS, seconds=40, partitions=partitions),
        base=Latency(CONNECTOR, seconds=40, partitions=partitions),
        base_name=BASE_NAME,
        figures=(
            Figure(
                name="p99_ms",
                unit="ms, p99",
                hold=at_most(1.0),
                estimate=0.5,
                because="a prototype reached half; why the connector's batches vary is not known",
            ),
            Figure(
                name="p50_ms",
                unit="ms, p50",
                hold=None,
                estimate=p50,
                because="Spark's two log files take most of a batch; our task runs in Python, "
                "which takes 50 ms",
            ),
        ),
        short_share=short_share,
    )


MEMORY = Row(
    group="spark's workers",
    name="all columns to noop, a topic four times as long (ours only)",
    load=WorkerMemory(OURS, JsonTopic(RECORDS)),
    base=WorkerMemory(OURS, JsonTopic(RECORDS // 4)),
    base_name="a quarter of it",
    figures=(
        Figure(
            name="peak_mb",
            unit="MB, the largest Python worker",
            hold=at_most(1.2),
            estimate=1.0,
            because="a worker holds one fetch, the next one in flight and one batch",
        ),
    ),
)

ROWS = (
    *(case.row() for case in SCANS),
    STREAM,
    _latency(4, 0.9, 0.125),
    _latency(1, 1.4, 0),
    MEMORY,
)
