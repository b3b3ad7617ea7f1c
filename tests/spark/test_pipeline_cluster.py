"""The same pipeline on a cluster of two workers without any installed package."""

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from ottla.spark.packing import pack
from ottla.spark.pipelines.trending.generate import generate
from tests.support.spark.pipelines.exactness import assert_exact, contents, send
from tests.support.spark.pipelines.process import PipelineRun
from tests.support.spark.pipelines.standalone import Standalone
from tests.support.spark.topics import Topics

NOON_MS = 1_767_268_800_000
PARTITIONS = 8
# The base Python of the tests' virtual environment, without its packages.
BARE_PYTHON = f"{sys.base_prefix}/bin/python{sys.version_info.major}.{sys.version_info.minor}"


def happened(log: Path) -> Iterator[dict[str, Any]]:
    """Spark's event log."""
    for path in sorted(log.rglob("events_*")):
        for line in path.read_text().splitlines():
            yield json.loads(line)


def test_eight_partitions_are_eight_tasks_on_two_workers_that_have_only_python(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.make(topic, PARTITIONS)
    send(topics.servers, topic, list(islice(generate(8, NOON_MS, 1.2), 1_500)))
    archive, log, rows = tmp_path / "ship.zip", tmp_path / "log", tmp_path / "rows"
    pack(str(archive), with_arrow=True)
    log.mkdir()
    conf = {
        "spark.executor.memory": "512m",
        "spark.executor.cores": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": log.as_uri(),
        # Both workers are there before the first task is given away.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
        "spark.cores.max": "4",
        "spark.locality.wait": "0s",
    }
    with Standalone(tmp_path, workers=2) as cluster:
        run = PipelineRun(
            *(topics.servers, topic, rows, "--until-end", "--master", cluster.url),
            *("--archive", str(archive)),
            conf=conf,
            environment={"PYSPARK_PYTHON": BARE_PYTHON},
        )
        try:
            assert run.wait() == 0, run.said
        finally:
            run.close()
    assert_exact(spark, rows, topic, contents(topics.servers, topic, PARTITIONS))
    tasks: dict[int, list[str]] = {}
    for event in happened(log):
        if event["Event"] == "SparkListenerTaskEnd":
            assert event["Task End Reason"] == {"Reason": "Success"}
            tasks.setdefault(event["Stage ID"], []).append(event["Task Info"]["Executor ID"])
    # Other stages have as many tasks as there are shuffle partitions: two.
    scans = [executors for executors in tasks.values() if len(executors) > 2]
    assert {len(executors) for executors in scans} == {PARTITIONS}
    # The first of them finds both workers idle; a later one may find one of them busy.
    assert {executor for executors in scans for executor in executors} == {"0", "1"}
