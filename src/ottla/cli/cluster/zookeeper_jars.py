"""Finds Java and the jars of ZooKeeper: those that Spark brings, else those of the system."""

import os
import shutil
from collections.abc import Sequence
from importlib.util import find_spec
from typing import NamedTuple

from ottla.cli.shared.failure import ExitCode, Failure

SYSTEM_JARS = "/usr/share/java"
# The jars of ZooKeeper and of what it needs. Spark has 270 others beside them, and a JVM that opens
# all of them takes a quarter more CPU to start.
_NEEDED = (
    "audience-annotations",
    "commons-cli",
    "commons-io",
    "log4j-",
    "metrics-core",
    "netty-",
    "slf4j-api",
    "snappy-java",
    "zookeeper",
)


class ZooKeeperJars(NamedTuple):
    """`origin` is for people: the package that has the jars."""

    java: str
    class_path: str
    origin: str


def find_zookeeper(
    *, spark_jars: str | None = None, system_jars: str = SYSTEM_JARS
) -> ZooKeeperJars:
    """Failure that names the missing package. `spark_jars` are by default those of the wheel."""
    java = _find_java()
    if java is None:
        raise Failure(
            "Java is not installed, and ZooKeeper needs it",
            advice="install it (Debian: apt install default-jdk-headless), or name the servers of a"
            " ZooKeeper that runs",
            exit_code=ExitCode.NOT_FOUND,
        )
    of_spark = spark_jars or _jars_of_spark()
    if of_spark is not None and _has_zookeeper(of_spark):
        return ZooKeeperJars(java, _needed_jars(of_spark), "the pyspark package")
    if _has_zookeeper(system_jars):
        return ZooKeeperJars(java, f"{system_jars}/*", "the zookeeper package of the system")
    raise Failure(
        "ZooKeeper is not installed",
        advice="pip install 'ottla[spark]', which brings it, or install it (Debian: apt install"
        " zookeeper)",
        exit_code=ExitCode.NOT_FOUND,
    )


def _find_java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    at_home = shutil.which("java", path=f"{home}/bin") if home else None
    return at_home or shutil.which("java")


def _jars_of_spark() -> str | None:
    """Finds the package without importing it."""
    found = find_spec("pyspark")
    if found is None or not found.submodule_search_locations:
        return None
    return os.path.join(found.submodule_search_locations[0], "jars")


def _needed_jars(directory: str) -> str:
    names = sorted(name for name in os.listdir(directory) if name.startswith(_NEEDED))
    return os.pathsep.join(os.path.join(directory, name) for name in names)


def _has_zookeeper(directory: str) -> bool:
    names: Sequence[str] = os.listdir(directory) if os.path.isdir(directory) else ()
    return any(
        name == "zookeeper.jar" or (name.startswith("zookeeper-3") and name.endswith(".jar"))
        for name in names
    )
