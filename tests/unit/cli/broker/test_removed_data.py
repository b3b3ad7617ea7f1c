"""`rm -rf` of a running broker's data directory: it refuses produce requests, and reports it."""

import json
import shutil
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from tests.support.broker.nodes import framed
from tests.support.broker.produce_and_fetch import batch, only, produce
from tests.support.cli.run_command import at, ottla
from tests.unit.cli.broker.test_serve import WAIT_S, serving

PRODUCE = 0
VERSION = 9


@contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as connection:
        yield connection


def write(connection: socket.socket) -> int:
    """The error code of one produce with acks=all."""
    connection.sendall(framed(produce("one", batch(b"x"), acks=-1), VERSION))
    with connection.makefile("rb") as answers:
        frame = answers.read(int.from_bytes(answers.read(4), "big"))
    return int(only(decode_response(frame, APIS[PRODUCE], VERSION)).error_code)


def readiness(address: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(f"http://{address}/health/ready", timeout=WAIT_S) as page:
            return page.status, json.load(page)
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, json.load(refusal)


def test_produces_after_the_data_directory_was_removed_are_refused_and_the_broker_is_not_ready(
    tmp_path: Path,
) -> None:
    data = tmp_path / "data"
    with serving(data) as served:
        assert ottla("topic", "create", "one", *at(served.kafka)).exit_code == 0
        with connected(served.kafka) as connection:
            assert write(connection) == ErrorCode.NONE
            assert readiness(served.metrics)[0] == 200
            shutil.rmtree(data)
            # Each is answered: the broker looks at its directory once per second.
            while (code := write(connection)) == ErrorCode.NONE:
                pass
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            while (page := readiness(served.metrics))[0] == 200:
                pass
            assert write(connection) == ErrorCode.KAFKA_STORAGE_ERROR
        status, content = page
        assert status == 503
        assert f"log directories: all are offline: {data}" in content["reasons"]
        assert f"{data} was removed" in content["warnings"][0]
        assert not data.exists(), "nothing is made in its place"
        exit_code, _, stderr = served.stop()
    assert exit_code == 0
    assert stderr.count('"event": "log directory offline"') == 1
    assert '"event": "disk fault"' not in stderr
    assert not data.exists()
