"""A Spark session that uses this Python, and explains a missing Java."""

import os
import sys
from collections.abc import Mapping

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from ottla.errors import OttlaError
from ottla.spark.java_version import JAVA_MIN


class NoJava(OttlaError):
    """Spark cannot start Java. The message says what to install."""


def session(
    name: str = "ottla",
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session of this process, created if there is none. NoJava.

    Workers run this Python. By default Spark runs the `python3` on the PATH, which may lack Ottla.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in (conf or {}).items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        if error.getCondition() != "JAVA_GATEWAY_EXITED":
            raise
        raise NoJava(
            f"Spark needs Java {JAVA_MIN} or later, and none could be started: install it (Debian: "
            "apt install default-jre-headless), or set JAVA_HOME to its directory"
        ) from error
