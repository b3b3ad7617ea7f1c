"""The memory of Spark's Python workers while a topic is read. Runs in the child."""

import os
import threading
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.loads.spark.scanning import scan
from benchmarks.measuring import family, peak_memory_mb

POLL_INTERVAL_S = 0.02
WORKER = b"pyspark.daemon"


class PeakWatch:
    """The peak of resident memory of any Python worker. A context manager."""

    def __init__(self) -> None:
        self.peak_mb = 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="worker-memory")

    def __enter__(self) -> "PeakWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(POLL_INTERVAL_S):
            for pid in family(os.getpid()):
                try:
                    if WORKER in Path(f"/proc/{pid}/cmdline").read_bytes():
                        self.peak_mb = max(self.peak_mb, peak_memory_mb(pid))
                except (FileNotFoundError, ProcessLookupError, ValueError):
                    continue  # a worker ends with its task


def worker_memory(
    spark: SparkSession, place: Path, *, source: str, servers: str, topic: str, rows: int
) -> dict[str, float]:
    """MB of the largest worker; meaningful only with a new worker per task."""
    with PeakWatch() as watch:
        scan(spark, place, source=source, servers=servers, topic=topic, rows=rows, sink="noop")
    if not watch.peak_mb:
        raise ValueError("no Python worker was seen")
    return {"peak_mb": watch.peak_mb}
