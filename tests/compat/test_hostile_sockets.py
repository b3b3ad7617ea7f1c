"""A real broker's process and real sockets: crowds, liars and the deaf cost it little, others
nothing.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import pytest

from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from tests.support.broker.nodes import framed
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import new_topic

SILENT = 5_000
LIARS = 300
DEAF = 20
SOFT_LIMIT = 1_024
FRAME_BYTES_MAX = 100 << 20
MIB = 1 << 20
HOUR_S = 3_600
BIG = bytes(900_000)
# For whatever surely comes, also where other programs have the processors most of the time.
WAIT_S = 120.0
WAIT_MS = int(4 * WAIT_S * 1000)
SETTINGS = (
    "ottla.disk.reserve.bytes=0",
    # Only what a topic says itself: what the tests write is old.
    "log.retention.ms=-1",
    "log.retention.check.interval.ms=500",
    "socket.listen.backlog.size=4096",
)


class Talker:
    """A blocking client: a request, its answer, the next request."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.socket = socket.create_connection(address, timeout=WAIT_S)

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
        """The broker must stop cleanly."""
        try:
            self.process.send_signal(signal.SIGTERM)
            exit_code = self.process.wait(WAIT_S)
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

    def becomes_quiet(self, share_max: float) -> None:
        """Waits for a second of which it takes no more than this share of a processor."""

        def is_quiet() -> bool:
            began_s, before_s = time.monotonic(), self.cpu_s
            time.sleep(1)
            return self.cpu_s - before_s < share_max * (time.monotonic() - began_s)

        wait_until(is_quiet)

    def metric(self, name: str, label: str = "") -> float:
        """The sum over all labels, or over those where this one stands."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=WAIT_S) as answer:
            lines = answer.read().decode().splitlines()
        found = [line for line in lines if line.startswith(name) and label in line]
        return sum(float(line.rsplit(" ", 1)[1]) for line in found)

    def lines(self, event: str) -> list[dict[str, Any]]:
        # The last one may be on its way.
        whole, _, _ = self.log.read_text().rpartition("\n")
        entries = [json.loads(line) for line in whole.splitlines()]
        return [entry["fields"] for entry in entries if entry["event"] == event]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("hostile")) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def descriptors() -> Iterator[None]:
    """Enough of our own for each crowd."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = SILENT + 500
    assert hard >= needed, "these tests need descriptors of their own"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Bystander:
    """A client that produces and fetches in a thread, and must make progress."""

    def __init__(self, served: Served, topic: str) -> None:
        self._served = served
        self._topic = topic
        self._is_over = threading.Event()
        self._rounds = 0
        self._failures: list[BaseException] = []
        self._worker = threading.Thread(target=self._work)

    def _work(self) -> None:
        try:
            with Talker(self._served.address) as talker:
                talker.ask(CreateTopicsRequest(topics=(new_topic(self._topic),)), 5)
                while not self._is_over.wait(0.02):
                    self._round(talker, self._rounds)
                    self._rounds += 1
        except BaseException as error:  # noqa: BLE001 - raised in the test's thread
            self._failures.append(error)

    def _round(self, talker: Talker, number: int) -> None:
        sent = produce(self._topic, batch(b"%d" % number))
        assert only(talker.ask(sent, 9)).base_offset == number
        fetched = talker.ask(fetch(self._topic, wanted(offset=number)), 12)
        assert values(only(fetched).records) == [b"%d" % number]

    def goes_on(self) -> None:
        """Waits for several rounds that begin from now on."""
        enough = self._rounds + 5
        wait_until(lambda: self._rounds >= enough or bool(self._failures))

    def __enter__(self) -> Self:
        self._worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._worker.join()
        if self._failures:
            raise self._failures[0]


def stranger_to(served: Served) -> socket.socket:
    return socket.create_connection(served.address, timeout=WAIT_S)


def is_closed(stranger: socket.socket) -> bool:
    """Whether the broker ends this connection, without a word before."""
    try:
        return stranger.recv(1) == b""
    except ConnectionResetError:
        return True


def test_five_thousand_silent_connections_do_no_harm(served: Served) -> None:
    before_bytes = served.memory_bytes
    with Bystander(served, "beside-the-silent") as bystander, ExitStack() as crowd:
        for _ in range(SILENT):
            crowd.enter_context(stranger_to(served))
        wait_until(lambda: served.metric("ottla_connections{") > SILENT)
        bystander.goes_on()
        # A few kilobytes each, with asyncio's and uvloop's own.
        assert served.memory_bytes - before_bytes < 100 * MIB
    wait_until(lambda: served.metric("ottla_connections{") < 10)


def test_lengths_that_are_merely_claimed_cost_nothing(served: Served) -> None:
    before_bytes = served.memory_bytes
    with Bystander(served, "beside-the-liars") as bystander, ExitStack() as crowd:
        for _ in range(LIARS):
            liar = crowd.enter_context(stranger_to(served))
            liar.sendall(FRAME_BYTES_MAX.to_bytes(4, "big") + b"\0\0")
        wait_until(lambda: served.metric("ottla_queued_request_bytes") > LIARS)
        bystander.goes_on()
        assert served.memory_bytes - before_bytes < 50 * MIB


def test_clients_that_never_read_fill_their_own_buffers(served: Served) -> None:
    with Talker(served.address) as talker:
        talker.ask(CreateTopicsRequest(topics=(new_topic("large"),)), 5)
        for _ in range(30):
            assert only(talker.ask(produce("large", batch(BIG)), 9)).error_code == 0
    asked = framed(fetch("large", wanted(bytes_max=50 << 20)), 12)
    before_bytes = served.memory_bytes
    with Bystander(served, "beside-the-deaf") as bystander, ExitStack() as crowd:
        for _ in range(DEAF):
            deaf = crowd.enter_context(stranger_to(served))
            deaf.sendall(asked * 200)
        bystander.goes_on()
        # It does not try again and again.
        served.becomes_quiet(share_max=0.9)
        # Their replies are slices of files: all that is kept is what a socket did not take.
        assert served.memory_bytes - before_bytes < DEAF * 2 * MIB


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
def test_bytes_that_are_no_request_close_the_connection(served: Served, sent: bytes) -> None:
    with Bystander(served, f"beside-garbage-{sent[:12].hex()}") as bystander:
        with stranger_to(served) as stranger:
            stranger.sendall(sent)
            assert is_closed(stranger)
        bystander.goes_on()


def test_repeated_errors_are_counted_and_logged_a_few_times(served: Served) -> None:
    faults = ("ottla_connections_closed_total", 'reason="bad request"')
    counted = served.metric(*faults)
    for _ in range(100):
        with stranger_to(served) as stranger:
            stranger.sendall(b"\xff\xff\xff\xff")
            assert is_closed(stranger)
    assert served.metric(*faults) == counted + 100
    # After each minute, an event has the number of suppressed ones.
    ended = served.lines("connection ended")
    told = [line for line in ended if line.get("reason") == "bad request"]
    assert 0 < len(told) < 50
    assert told[0]["peer"] == "127.0.0.1"
    assert told[0]["error"]


def test_polls_that_wait_take_no_processor_time(served: Served) -> None:
    with ExitStack() as polls:
        first = polls.enter_context(Talker(served.address))
        first.ask(CreateTopicsRequest(topics=(new_topic("quiet"),)), 5)
        waiting = [polls.enter_context(Talker(served.address)) for _ in range(200)]
        for poll in waiting:
            # They would be held for longer than is waited here.
            poll.socket.sendall(framed(fetch("quiet", wanted(), wait_ms=WAIT_MS), 12))
        served.becomes_quiet(share_max=0.2)
        first.ask(produce("quiet", batch(b"at last")), 9)
        for poll in waiting:
            fetched = decode_response(poll.receive(), APIS[1], 12)
            assert values(only(fetched).records) == [b"at last"]


def test_files_that_were_touched_age_as_their_records_do(served: Served) -> None:
    with Talker(served.address) as talker:
        write_of_age(talker, "aging", (30, 20, 10))
        for path in (served.data / "aging-0").iterdir():
            # Some come and go meanwhile, such as a checkpoint under the name it is written by.
            with suppress(FileNotFoundError):
                os.utime(path, (1, 1))
        # Files that were written just now, of records that are old. What goes in the second topic
        # goes when the broker has looked at all topics since the first was cut.
        for topic in ("aged", "aged-later"):
            write_of_age(talker, topic, (3 * HOUR_S, 2 * HOUR_S, HOUR_S + 60))
            wait_until(lambda topic=topic: log_start(talker, topic) >= 2)
        assert log_start(talker, "aging") == 0


def write_of_age(talker: Talker, topic: str, ages_s: tuple[int, ...]) -> None:
    """A segment for each, in a topic that keeps records for an hour."""
    configs: dict[str, str | None] = {"segment.ms": "1000", "retention.ms": str(HOUR_S * 1000)}
    talker.ask(CreateTopicsRequest(topics=(new_topic(topic, configs=configs),)), 5)
    now_ms = int(time.time() * 1000)
    for age_s in ages_s:
        sent = batch(b"%d" % age_s, timestamp_ms=now_ms - age_s * 1000)
        assert only(talker.ask(produce(topic, sent), 9)).error_code == 0


def log_start(talker: Talker, topic: str) -> int:
    return int(only(talker.ask(fetch(topic, wanted(offset=3)), 12)).log_start_offset)


def test_the_soft_limit_of_descriptors_is_no_limit(served: Served) -> None:
    limits = Path(f"/proc/{served.process.pid}/limits").read_text().splitlines()
    (open_files,) = [line.split() for line in limits if line.startswith("Max open files")]
    assert open_files[3] == open_files[4]


def test_a_crowd_does_not_take_the_descriptors_that_the_logs_need(tmp_path: Path) -> None:
    with Served(tmp_path, descriptors_max=SOFT_LIMIT) as served, ExitStack() as crowd:
        for _ in range(2 * SOFT_LIMIT):
            crowd.enter_context(stranger_to(served))
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


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)
