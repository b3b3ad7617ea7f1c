"""From a record's scheduled send to its arrival in `foreachBatch`. Runs in the child."""

import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from benchmarks.loads.spark.streaming import stream_of

# The first batches of a query are slow: records sent during this time are not counted.
WARM_UP_S = 2.0
ARRIVAL_S_MAX = 60.0
NS_PER_S, NS_PER_MS = 10**9, 10**6


class Arrivals:
    """The delays of records that were scheduled after `begin`."""

    def __init__(self) -> None:
        self._begin_ns: int | None = None
        self.delays_ns: list[int] = []

    def begin(self) -> None:
        self._begin_ns = time.time_ns()

    def take(self, frame: DataFrame, _batch: int) -> None:
        """Called by `foreachBatch`; a record's value is its scheduled time."""
        scheduled = [int(row.value) for row in frame.select("value").collect()]
        now_ns = time.time_ns()
        if (begin_ns := self._begin_ns) is not None:
            self.delays_ns += [now_ns - each for each in scheduled if each >= begin_ns]


def latency(
    spark: SparkSession,
    place: Path,
    *,
    source: str,
    servers: str,
    topic: str,
    rate: int,
    seconds: float,
) -> dict[str, float]:
    """Latency percentiles in ms of a query that is warmed up."""
    checkpoint, arrivals, count = place / "checkpoint", Arrivals(), round(rate * seconds)
    shutil.rmtree(checkpoint, ignore_errors=True)
    writer = stream_of(spark, source, servers, topic).writeStream
    writer = writer.option("checkpointLocation", str(checkpoint)).foreachBatch(arrivals.take)
    query = writer.start()
    try:
        producer = Producer({"bootstrap.servers": servers, "linger.ms": 0, "log_level": 0})
        send(producer, topic, rate, 1)
        query.processAllAvailable()
        send(producer, topic, rate, round(rate * WARM_UP_S))
        arrivals.begin()
        send(producer, topic, rate, count)
        deadline = time.monotonic() + ARRIVAL_S_MAX
        while len(arrivals.delays_ns) < count and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        query.stop()
    if len(arrivals.delays_ns) != count:
        raise ValueError(f"{len(arrivals.delays_ns):,} of {count:,} records arrived")
    ordered = sorted(arrivals.delays_ns)
    return {"p50_ms": percentile(ordered, 50), "p99_ms": percentile(ordered, 99)}


def send(producer: Producer, topic: str, rate: int, count: int) -> None:
    """Sends records at an even rate, each with its scheduled time."""
    begin_ns = time.time_ns()
    for index in range(count):
        scheduled_ns = begin_ns + index * NS_PER_S // rate
        time.sleep(max(0, scheduled_ns - time.time_ns()) / NS_PER_S)
        producer.produce(topic, b"%d" % scheduled_ns, b"%d" % index)
        producer.poll(0)
    producer.flush(ARRIVAL_S_MAX)


def percentile(ordered_ns: Sequence[int], percent: int) -> float:
    """A percentile in ms of sorted delays."""
    return ordered_ns[min(len(ordered_ns) - 1, len(ordered_ns) * percent // 100)] / NS_PER_MS
