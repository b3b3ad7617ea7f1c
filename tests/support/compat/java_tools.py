"""Kafka's own command line tools, by their main classes. A JVM takes a second or two to start."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

JARS = Path(os.environ.get("KAFKA_JARS", ".cache/kafka-4.3.1"))
TOOLS = "org.apache.kafka.tools"
WAIT_S = 240.0
# Quick to start rather than quick in the long run.
JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx256m")


def run_tool(name: str, *arguments: str, lines: bytes = b"") -> bytes:
    """What a tool of Kafka prints; a tool that fails fails the test.

    `name` is its class within Kafka's tools, or from `kafka.` on.
    """
    finished = try_tool(name, *arguments, lines=lines)
    assert finished.returncode == 0, (finished.stdout + finished.stderr).decode()
    return finished.stdout


def try_tool(name: str, *arguments: str, lines: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """A run of a tool that is allowed to fail."""
    if not any(JARS.glob("kafka-tools-*.jar")) or shutil.which("java") is None:
        pytest.fail(
            f"Kafka's tools (in {JARS}) and Java are needed: run `make test`", pytrace=False
        )
    main = name if name.startswith("kafka.") else f"{TOOLS}.{name}"
    return subprocess.run(
        ["java", *JVM, "-cp", f"{JARS}/*", main, *arguments],
        input=lines,
        capture_output=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        timeout=WAIT_S,
        check=False,
    )
