"""Kafka Streams as one of the clients: it counts words with exactly_once_v2.

A thread of it that fails is replaced. If the whole program ends, the words that are left are not
counted, and the checker says so.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.support.compat.java_tools import JARS, JVM
from tests.support.paths import ROOT

PROGRAM = ROOT / "tests" / "compat" / "WordCount.java"
REPLICAS = "3"


class WordCount:
    def __init__(
        self, servers: str, directory: Path, prefix: Sequence[str], topics: tuple[str, str]
    ) -> None:
        java = ["java", *JVM, "-cp", f"{JARS.resolve()}/*", str(PROGRAM)]
        state = directory / "streams"
        self._command = [*prefix, *java, servers, *topics, str(state), REPLICAS]
        self._errors = directory / "streams.err"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=errors, stderr=errors
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
