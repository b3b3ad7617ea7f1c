"""The child process with a Spark session: runs one query per line of its input.

A line is a query's name and arguments as JSON. The answer is one line of JSON: figures or an error.
The session ends with the input.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from pyspark.sql import SparkSession

from benchmarks.loads.spark.latency import latency
from benchmarks.loads.spark.scanning import scan
from benchmarks.loads.spark.streaming import available_now
from benchmarks.loads.spark.workers import worker_memory
from ottla.spark import session

CORES = 2
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(CORES),
}
QUERIES: dict[str, Callable[..., dict[str, float]]] = {
    "scan": scan,
    "available_now": available_now,
    "latency": latency,
    "worker_memory": worker_memory,
}


def own_answers() -> TextIO:
    """Our standard output; output of Java is redirected to the log from now on."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return answers


def serve(spark: SparkSession, place: Path, answers: TextIO) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        query = QUERIES[asked.pop("query")]
        answer: dict[str, object]
        try:
            answer = {"figures": query(spark, place, **asked)}
        except Exception as error:  # noqa: BLE001 - every error is reported to the parent
            answer = {"trouble": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


def main() -> None:
    place, conf = Path(sys.argv[1]), json.loads(sys.argv[2])
    answers = own_answers()
    places = {
        "spark.local.dir": str(place / "local"),
        "spark.sql.warehouse.dir": str(place / "warehouse"),
    }
    spark = session("benchmarks", master=f"local[{CORES}]", conf=CONF | places | conf)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        serve(spark, place, answers)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
