"""A real broker's process and real sockets: crowds, liars and the deaf cost it little, others
nothing.
"""

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import pytest

from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from tests.unit.broker.batches import batch, fetch, only, produce, values, wanted
from tests.unit.broker.nodes import framed
from tests.unit.broker.simulated_broker import new_topic

SILENT = 5_000
LIARS = 300
DEAF = 20
SOFT_LIMIT = 1_024
FRAME_BYTES_MAX = 100 << 20
MIB = 1 << 20
BIG = bytes(900_000)
# Even where other programs have the processors most of the time.
ROUND_S_MAX = 5.0
SETTINGS = (
    "ottla.disk.reserve.bytes=0",
    "log.retention.check.interval.ms=500",
    "socket.listen.backlog.size=4096",
)


class Talker:
    """A blocking client: a request, its answer, the next request."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=30)

    def ask(self, request: Any, version: int) -> Any:
        self.socket.sendall(framed(request, version))
        api = next(api for api in APIS.values() if api.request is type(request))
        return decode_response(self.receive(), api, version)

    def receive(self) -> bytes:
        size = int.from_bytes(self._read(4), "big")
        return self._read(size)

    def _read(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            piece = self.socket.recv(size - len(received))
            if not piece:
                raise ConnectionError("the broker has closed the connection")
            received += piece
        return bytes(received)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


class Served:
    """`ottla serve` in a process that begins with few descriptors, as a login shell gives them.

    `descriptors_max` is how many it can have if it asks; by default as many as we.
    """

    def __init__(self, directory: Path, descriptors_max: int | None = None) -> None:
        data, log = directory / "data", directory / "log"
        self.data = data
        self.log = log
        command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(data)]
        command += ["--port", "0", "--metrics-port", "0"]
        for setting in SETTINGS:
            command += ["--set", setting]
        hard = descriptors_max or resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        limit = ["prlimit", f"--nofile={SOFT_LIMIT}:{hard}", "--"]
        with log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*limit, *command], stdout=subprocess.PIPE, stderr=stderr
            )
        assert self.process.stdout is not None
        ready = self.process.stdout.readline().decode().split()
        assert ready[:1] == ["ready"], log.read_text()
        fields = dict(field.split("=") for field in ready[1:])
        host, _, port = fields["kafka"].rpartition(":")
        self.address = (host, int(port))
        self.metrics = fields["metrics"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """In the end it stops cleanly, whatever it went through."""
        try:
            self.process.send_signal(signal.SIGTERM)
            exit_code = self.process.wait(30)
            assert kind is not None or exit_code == 0, self.log.read_text()
        finally:
            self.process.kill()
            self.process.communicate()

    @property
    def memory_bytes(self) -> int:
        statm = Path(f"/proc/{self.process.pid}/statm").read_text()
        return int(statm.split()[1]) * resource.getpagesize()

    @property
    def cpu_s(self) -> float:
        columns = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(columns[11]) + int(columns[12])) / os.sysconf("SC_CLK_TCK")

    def metric(self, name: str) -> float:
        """The sum over all labels."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def lines(self, event: str) -> list[dict[str, Any]]:
        entries = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [entry["fields"] for entry in entries if entry["event"] == event]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("hostile")) as running:
        yield running


class Bystander:
    """Somebody who produces and fetches meanwhile, in a thread, and must not notice."""

    def __init__(self, served: Served, topic: str) -> None:
        self._served = served
        self._topic = topic
        self._is_over = threading.Event()
        self._rounds_s: list[float] = []
        self._failures: list[BaseException] = []
        self._worker = threading.Thread(target=self._work)

    def _work(self) -> None:
        try:
            with Talker(self._served.address) as talker:
                talker.ask(CreateTopicsRequest(topics=(new_topic(self._topic),)), 5)
                while not self._is_over.wait(0.02):
                    self._round(talker, len(self._rounds_s))
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self._failures.append(error)

    def _round(self, talker: Talker, number: int) -> None:
        began = time.monotonic()
        sent = produce(self._topic, batch(b"%d" % number))
        assert only(talker.ask(sent, 9)).base_offset == number
        fetched = talker.ask(fetch(self._topic, wanted(offset=number)), 12)
        assert values(only(fetched).records) == [b"%d" % number]
        self._rounds_s.append(time.monotonic() - began)

    def goes_on(self) -> None:
        """Several rounds begin and end from now on: beside whatever is there now."""
        enough = len(self._rounds_s) + 5
        wait_until(lambda: len(self._rounds_s) >= enough or bool(self._failures), within_s=60)

    def __enter__(self) -> Self:
        self._worker.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._is_over.set()
        self._worker.join()
        if self._failures:
            raise self._failures[0]
        assert kind is not None or max(self._rounds_s) < ROUND_S_MAX


def is_closed(stranger: socket.socket, within_s: float) -> bool:
    """Whether the broker ends this connection, without a word before."""
    if not select.select([stranger], [], [], within_s)[0]:
        return False
    try:
        return stranger.recv(1) == b""
    except ConnectionResetError:
        return True


def test_five_thousand_who_say_nothing_do_no_harm(served: Served) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = SILENT + 500
    assert hard >= needed, "this test needs descriptors of its own"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    before_bytes = served.memory_bytes
    with Bystander(served, "beside-the-silent") as bystander, ExitStack() as crowd:
        for _ in range(SILENT):
            crowd.enter_context(socket.create_connection(served.address, timeout=30))
        wait_until(lambda: served.metric("ottla_connections{") > SILENT)
        bystander.goes_on()
        # A few kilobytes each, with asyncio's and uvloop's own.
        assert served.memory_bytes - before_bytes < 100 * MIB
    wait_until(lambda: served.metric("ottla_connections{") < 10)


def test_lengths_that_are_merely_claimed_cost_nothing(served: Served) -> None:
    before_bytes = served.memory_bytes
    with Bystander(served, "beside-the-liars") as bystander, ExitStack() as crowd:
        for _ in range(LIARS):
            liar = crowd.enter_context(socket.create_connection(served.address, timeout=30))
            liar.sendall(FRAME_BYTES_MAX.to_bytes(4, "big") + b"\0\0")
        wait_until(lambda: served.metric("ottla_queued_request_bytes") > LIARS)
        bystander.goes_on()
        assert served.memory_bytes - before_bytes < 50 * MIB


def test_those_who_never_read_their_answers_fill_their_own_buffers(served: Served) -> None:
    with Talker(served.address) as talker:
        talker.ask(CreateTopicsRequest(topics=(new_topic("large"),)), 5)
        for _ in range(30):
            assert only(talker.ask(produce("large", batch(BIG)), 9)).error_code == 0
    asked = framed(fetch("large", wanted(bytes_max=50 << 20)), 12)
    before_bytes = served.memory_bytes
    with Bystander(served, "beside-the-deaf") as bystander, ExitStack() as crowd:
        for _ in range(DEAF):
            deaf = crowd.enter_context(socket.create_connection(served.address, timeout=30))
            deaf.sendall(asked * 200)
        bystander.goes_on()
        time.sleep(1)
        # Their replies are slices of files: all that is kept is what a socket did not take.
        assert served.memory_bytes - before_bytes < DEAF * 2 * MIB
        cpu_s = served.cpu_s
        time.sleep(1)
        assert served.cpu_s - cpu_s < 0.9, "it does not try again and again"


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
        b"\0\0\0\x0a\x03\xe7\0\0\0\0\0\1\xff\xff",
        b"\0\0\0\x0a\0\3\0\x63\0\0\0\1\xff\xff",
        b"\0\0\0\0",
        bytes(1000),
    ],
)
def test_what_is_no_request_is_closed(served: Served, sent: bytes) -> None:
    with Bystander(served, f"beside-garbage-{sent[:12].hex()}") as bystander:
        with socket.create_connection(served.address, timeout=30) as stranger:
            stranger.sendall(sent)
            assert is_closed(stranger, within_s=20)
        bystander.goes_on()


def test_repeated_faults_are_counted_and_told_a_few_times(served: Served) -> None:
    counted = served.metric("ottla_connections_closed_total")
    for _ in range(100):
        with socket.create_connection(served.address, timeout=30) as stranger:
            stranger.sendall(b"\xff\xff\xff\xff")
            assert is_closed(stranger, within_s=20)
    assert served.metric("ottla_connections_closed_total") == counted + 100
    told = [line for line in served.lines("connection ended") if line["reason"] == "bad request"]
    assert 0 < len(told) < 50
    assert told[0]["peer"] == "127.0.0.1"
    assert told[0]["error"]


def test_polls_that_wait_take_no_processor_time(served: Served) -> None:
    with ExitStack() as polls:
        first = polls.enter_context(Talker(served.address))
        first.ask(CreateTopicsRequest(topics=(new_topic("quiet"),)), 5)
        waiting = [polls.enter_context(Talker(served.address)) for _ in range(200)]
        for poll in waiting:
            poll.socket.sendall(framed(fetch("quiet", wanted(), wait_ms=20_000), 12))
        time.sleep(0.5)
        cpu_s = served.cpu_s
        time.sleep(1.5)
        assert served.cpu_s - cpu_s < 0.3
        first.ask(produce("quiet", batch(b"at last")), 9)
        for poll in waiting:
            fetched = decode_response(poll.receive(), APIS[1], 12)
            assert values(only(fetched).records) == [b"at last"]


def test_files_that_were_touched_age_as_their_records_do(served: Served) -> None:
    configs: dict[str, str | None] = {"segment.ms": "1000", "retention.ms": "60000"}
    now_ms = int(time.time() * 1000)
    with Talker(served.address) as talker:
        talker.ask(CreateTopicsRequest(topics=(new_topic("aging", configs=configs),)), 5)
        for age_s in (30, 20, 10):
            sent = batch(b"young", timestamp_ms=now_ms - age_s * 1000)
            assert only(talker.ask(produce("aging", sent), 9)).error_code == 0
        for path in (served.data / "aging-0").iterdir():
            os.utime(path, (1, 1))
        time.sleep(2)
        assert only(talker.ask(fetch("aging", wanted()), 12)).log_start_offset == 0
        talker.ask(CreateTopicsRequest(topics=(new_topic("aged", configs=configs),)), 5)
        for age_s in (300, 200, 100):
            sent = batch(b"old", timestamp_ms=now_ms - age_s * 1000)
            assert only(talker.ask(produce("aged", sent), 9)).error_code == 0
        for path in (served.data / "aged-0").iterdir():
            os.utime(path)

        def log_start() -> int:
            return int(only(talker.ask(fetch("aged", wanted(offset=2)), 12)).log_start_offset)

        wait_until(lambda: log_start() == 2)


def test_the_soft_limit_of_descriptors_is_no_limit(served: Served) -> None:
    limits = Path(f"/proc/{served.process.pid}/limits").read_text().splitlines()
    (open_files,) = [line.split() for line in limits if line.startswith("Max open files")]
    assert open_files[3] == open_files[4]


def test_a_crowd_does_not_take_the_descriptors_that_the_logs_need(tmp_path: Path) -> None:
    with Served(tmp_path, descriptors_max=SOFT_LIMIT) as served, ExitStack() as crowd:
        for _ in range(2 * SOFT_LIMIT):
            crowd.enter_context(socket.create_connection(served.address, timeout=30))
        wait_until(lambda: served.metric("ottla_connections_refused_total") > SOFT_LIMIT)
        (warned,) = served.lines("few descriptors")
        assert warned["descriptors_max"] == SOFT_LIMIT
        assert served.lines("connection refused")[0]["reason"] == "descriptors"
        crowd.pop_all().close()
        wait_until(lambda: served.metric("ottla_connections{") == 0)
        with Bystander(served, "afterwards") as bystander:
            bystander.goes_on()


def test_it_is_alive_after_all_that(served: Served) -> None:
    with Talker(served.address) as talker:
        assert talker.ask(ApiVersionsRequest(), 0).error_code == 0


def wait_until(condition: Any, within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
