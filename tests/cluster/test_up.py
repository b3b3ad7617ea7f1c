"""`ottla up --brokers N`: a cluster on this machine, from its start to its end."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.cluster.cluster_file import read_cluster_file
from tests.support.cli.run_command import ottla

WAIT_S = 120.0
TOPIC = "records"
QUIET = {"log_level": 0}
# Tests run on full disks too, and several ZooKeeper servers take memory and time.
SETS = ("--set", "ottla.disk.reserve.bytes=0")
COMMAND = (sys.executable, "-m", "ottla.cli")


class Running:
    """A supervisor in the foreground, and the lines that it has printed."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout or ():
            self.lines.append(line.rstrip())

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, pattern: str) -> "re.Match[str]":
        found: list[re.Match[str]] = []

        def is_there() -> bool:
            match = re.search(pattern, self.output)
            found.extend([match] if match else [])
            # Everything that an ended process wrote is read.
            assert match or self._reader.is_alive(), self.output
            return match is not None

        until(is_there, lambda: self.output)
        return found[0]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return code


def until(is_so: Callable[[], bool], shown: Callable[[], object] = lambda: "") -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline, shown()
        time.sleep(0.05)


@contextmanager
def up(data: Path, *options: str) -> Iterator[Running]:
    command = [*COMMAND, "up", "--data", str(data), "--port", "0", *SETS, *options]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        running = Running(process)
        try:
            running.wait_for(r"(?m)^Wipe ")
            yield running
        finally:
            process.kill()


def processes_of(data: Path) -> list[int]:
    """All processes that have the directory in their command."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            command = Path(f"/proc/{name}/cmdline").read_bytes().decode(errors="replace")
            state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if str(data) in command and state not in "ZX" and int(name) != os.getpid():
            found.append(int(name))
    return found


def servers_of(data: Path) -> str:
    saved = read_cluster_file(str(data))
    assert saved is not None
    return ",".join(f"127.0.0.1:{each.kafka}" for each in saved.brokers)


def pid_of(data: Path, broker_id: int) -> int:
    return int((data / f"broker-{broker_id}" / "ottla.pid").read_text())


def produce(servers: str, values: range) -> None:
    producer = Producer({"bootstrap.servers": servers, "acks": "all", **QUIET})
    refused: list[object] = []
    for value in values:
        producer.produce(
            TOPIC, str(value), on_delivery=lambda error, _: error and refused.append(error)
        )
    assert producer.flush(WAIT_S) == 0
    assert refused == []


def consume(servers: str, count: int) -> list[int]:
    settings = {"bootstrap.servers": servers, "group.id": "readers", **QUIET}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < deadline, found
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            found.append(int(message.value()))
    consumer.close()
    return found


def test_a_cluster_keeps_its_records_over_kills_restarts_and_growth(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    with up(data, "--brokers", "3") as running:
        assert len(re.findall(r"127\.0\.0\.1:\d+ +127\.0\.0\.1:\d+ +http://", running.output)) == 3
        assert "ZooKeeper started: 3 servers, from the " in running.output
        servers = servers_of(data)
        admin = AdminClient({"bootstrap.servers": servers, **QUIET})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(WAIT_S)
        produce(servers, range(100))
        partition = admin.list_topics(TOPIC, timeout=WAIT_S).topics[TOPIC].partitions[0]
        assert sorted(partition.replicas) == [1, 2, 3]

        killed = partition.leader
        os.kill(pid_of(data, killed), signal.SIGKILL)
        produce(servers, range(100, 200))
        running.wait_for(rf"broker {killed} ended \(signal SIGKILL\); it starts again in 1 s")
        again = running.wait_for(rf"broker {killed} runs again, process (\d+)")
        assert int(again[1]) == pid_of(data, killed)

        taken = ottla("up", "--brokers", "3", "--data", str(data), "--port", "0", "--detach")
        assert taken.exit_code == 1
        assert "is in use by" in taken.stderr
        assert running.stop() == 0
        assert "stopping the brokers, then ZooKeeper" in running.output
        until(lambda: not processes_of(data))

    with up(data, "--brokers", "4") as running:
        assert servers_of(data).startswith(servers)
        assert consume(servers_of(data), 200) == list(range(200))
        fourth = servers_of(data).rpartition(",")[2]
        admin = AdminClient({"bootstrap.servers": fourth, **QUIET})
        until(lambda: set(admin.list_topics(timeout=WAIT_S).brokers) == {1, 2, 3, 4})
        assert len(processes_of(data)) == 3 + 4 + 1
        # A killed supervisor takes everything along.
        running.process.kill()
        until(lambda: not processes_of(data), lambda: processes_of(data))

    fewer = ottla("up", "--brokers", "3", "--data", str(data), "--port", "0", "--detach")
    assert fewer.exit_code == 2
    assert "has 4 brokers" in fewer.stderr


def test_down_stops_and_wipes_a_detached_cluster(tmp_path: Path) -> None:
    data = tmp_path / "cluster"
    arguments = ("up", "--brokers", "2", "--zookeeper-servers", "1", "--data", str(data))
    arguments += ("--port", "0", "--no-restart", "--detach", *SETS)
    started = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=WAIT_S
    )
    try:
        assert started.returncode == 0, started.stderr
        assert "1 server, from" in started.stdout
        log = data / "ottla.log"
        os.kill(pid_of(data, 2), signal.SIGKILL)
        until(lambda: "broker 2 ended (signal SIGKILL) and stays down" in log.read_text())
        assert len(processes_of(data)) == 1 + 1 + 1
        (data / "notes.txt").write_text("of the user")
        plan = ottla("down", "--data", str(data), "--wipe")
        assert plan.exit_code == 0
        assert "notes.txt" in plan.stderr
        assert len(processes_of(data)) == 3
        assert ottla("down", "--data", str(data)).exit_code == 0
        assert processes_of(data) == []
        plain = subprocess.run(
            [*COMMAND, "serve", "--data", str(data), "--port", "0"],
            capture_output=True,
            text=True,
            check=False,
            timeout=WAIT_S,
        )
        assert plain.returncode == 1
        assert "has the brokers of a cluster" in plain.stderr
        wiped = ottla("down", "--data", str(data), "--wipe", "--yes")
        assert wiped.exit_code == 0
        assert os.listdir(data) == ["notes.txt"]
    finally:
        for pid in processes_of(data):
            os.kill(pid, signal.SIGKILL)


def test_several_processes_serve_one_cluster(tmp_path: Path, connect: str) -> None:
    data = tmp_path / "data"
    command = [*COMMAND, "serve", "--zookeeper", connect, "--processes", "2", "--data", str(data)]
    command += ["--port", "0", "--metrics-port", "0", "--set", "node.id=5", *SETS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = re.match(r"ready kafka=(\S+) metrics=\S+ pid=(\d+)", process.stdout.readline())
            assert ready is not None
            assert int(ready[2]) == process.pid
            admin = AdminClient({"bootstrap.servers": ready[1], **QUIET})
            assert set(admin.list_topics(timeout=WAIT_S).brokers) == {5, 6}
            assert {"broker-5", "broker-6"} == set(os.listdir(data))
            process.terminate()
            assert process.wait(WAIT_S) == 0
            assert processes_of(data) == []
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--processes", "2"), "--processes needs --zookeeper"),
        (("--zookeeper", "127.0.0.1:1", "--processes", "2", "--port", "65535"), "last port"),
    ],
)
def test_processes_that_cannot_be(tmp_path: Path, options: tuple[str, ...], why: str) -> None:
    ran = subprocess.run(
        [*COMMAND, "serve", "--data", str(tmp_path / "d"), *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=WAIT_S,
    )
    assert ran.returncode == 2
    assert why in ran.stderr
    assert not (tmp_path / "d").exists()
