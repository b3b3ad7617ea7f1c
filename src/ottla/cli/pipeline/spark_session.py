"""The Spark on which a pipeline runs: which, and with what."""

import os
from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import SparkSession

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.spark.packing import driver_paths, packed_conf
from ottla.spark.sessions import session

# What `--conf` does not say otherwise.
CONF = {
    # As many as a small machine's cores can work on; a checkpoint keeps the number it began with.
    "spark.sql.shuffle.partitions": "4",
    # Progress is told batch by batch; a bar for every stage would run through it.
    "spark.ui.showConsoleProgress": "false",
    # It listens on all addresses.
    "spark.ui.enabled": "false",
    # For how long a query may take to stop before that is an error.
    "spark.sql.streaming.stopTimeout": "60s",
    # What fails is told in words; what Spark has to say besides is for who asks for it.
    "spark.log.level": "FATAL",
    # An error's first line is told, and the first cause; `ottla --debug` prints all of it.
    "spark.sql.pyspark.jvmStacktrace.enabled": "true",
}
LOOPBACK_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


class SparkChoice(NamedTuple):
    """What the user says about Spark."""

    master: str
    archive: str | None
    conf: Mapping[str, str]


def open_session(name: str, choice: SparkChoice) -> SparkSession:
    """A session of this process. Failure."""
    conf = dict(CONF)
    if choice.master.startswith("local"):
        conf |= LOOPBACK_CONF
    if choice.archive is not None:
        conf |= _archive_conf(choice.archive)
    return session(f"ottla-pipeline-{name}", master=choice.master, conf=conf | dict(choice.conf))


def _archive_conf(archive: str) -> Mapping[str, str]:
    path = os.path.abspath(archive)
    if not os.path.isfile(path):
        raise Failure(
            f"{archive} does not exist",
            advice=f"`ottla pipeline pack {archive}` writes it",
            exit_code=ExitCode.NOT_FOUND,
        )
    # Read when Spark's Java is started, whose workers inherit it.
    given = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*driver_paths(), *([given] if given else [])])
    return packed_conf(path)
