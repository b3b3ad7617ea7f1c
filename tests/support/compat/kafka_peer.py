"""A real Apache Kafka of one node, for tests of our client against other brokers."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from ottla.client.blocking.client import BlockingClient
from ottla.client.errors import ClientError
from tests.support.compat.java_tools import JARS, JVM
from tests.support.free_port import free_port

START_TIMEOUT_S = 200.0
STOP_TIMEOUT_S = 60.0
CLUSTER_ID = "AAAAAAAAQACAAAAAAAAAAQ"
# One node is all there is, which is not given up when it stands still for a while; a cleaner that
# does not wait; and records of any age are kept.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.backoff.ms=200
log.initial.task.delay.ms=0
log.retention.ms=-1
broker.session.timeout.ms=60000
"""


@contextmanager
def kafka_peer(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Runs it for the length of a `with`, and says where it is reached. `settings` come last."""
    if not any(JARS.glob("kafka_2.13-*.jar")) or shutil.which("java") is None:
        pytest.fail(f"Kafka (in {JARS}) and Java are needed: run `make test`", pytrace=False)
    port = free_port()
    properties = directory / "server.properties"
    given = PROPERTIES.format(port=port, controller_port=free_port(), logs=directory / "logs")
    given += "".join(f"{name}={value}\n" for name, value in (settings or {}).items())
    properties.write_text(given)
    _format(properties)
    with (directory / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*_java(), "kafka.Kafka", str(properties)],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    try:
        _wait_until_ready(process, directory / "server.log", port)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _java() -> list[str]:
    return ["java", *JVM, "-Xmx512m", "-cp", f"{JARS.resolve()}/*"]


def _format(properties: Path) -> None:
    done = subprocess.run(
        [*_java(), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(properties)],
        capture_output=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
        timeout=START_TIMEOUT_S,
    )
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path, port: int) -> None:
    """Until its broker answers about topics."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with BlockingClient(f"127.0.0.1:{port}") as client:
                client.topics()
        except ClientError:
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"Kafka did not start: {log.read_text()[-2000:]}", pytrace=False)
