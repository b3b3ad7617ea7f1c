"""The Spark session of a pipeline, and its settings."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.spark.packing import driver_paths, packed_conf
from ottla.spark.sessions import session

# Overridden by `--conf`.
DEFAULT_CONF = {
    # Suits the cores of a small machine; a checkpoint keeps its first number.
    "spark.sql.shuffle.partitions": "4",
    # Spark's progress bars would disturb the lines about batches.
    "spark.ui.showConsoleProgress": "false",
    # The UI listens on all addresses.
    "spark.ui.enabled": "false",
    # How long a query may take to stop.
    "spark.sql.streaming.stopTimeout": "60s",
    # Failures are reported by this command; `--conf` can show Spark's own log.
    "spark.log.level": "FATAL",
    # For the cause of an error; `ottla --debug` prints the whole stack trace.
    "spark.sql.pyspark.jvmStacktrace.enabled": "true",
}
LOOPBACK_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class SparkSettings(NamedTuple):
    """The Spark options of the command line."""

    master: str
    archive: str | None
    conf: Mapping[str, str]


def open_session(name: str, settings: SparkSettings) -> SparkSession:
    """The Spark session of this process. Failure."""
    conf = dict(DEFAULT_CONF)
    if settings.master.startswith("local"):
        conf |= LOOPBACK_CONF
    if settings.archive is not None:
        conf |= _archive_conf(settings.archive)
    return session(
        f"ottla-pipeline-{name}", master=settings.master, conf=conf | dict(settings.conf)
    )


def _archive_conf(archive: str) -> Mapping[str, str]:
    path = os.path.abspath(archive)
    if not os.path.isfile(path):
        raise Failure(
            f"{archive} does not exist",
            advice=f"`ottla pipeline pack {archive}` writes it",
            exit_code=ExitCode.NOT_FOUND,
        )
    # Spark's Java process reads it at its start, and its workers inherit it.
    given = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*driver_paths(), *([given] if given else [])])
    return packed_conf(path)
