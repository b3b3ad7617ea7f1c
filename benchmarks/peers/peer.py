"""One or several broker processes: starting, topics, stopping."""

import abc
import random
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

HOST = "127.0.0.1"
PORTS = range(15_000, 30_000)
LOG_TAIL_BYTES = 600
ADMIN_S = 60.0
# Groups do not wait for more members: the broker is measured, and not its configured delays.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
}


class BrokerFailed(Exception):
    """A broker did not start, or ended too early."""


class Peer(abc.ABC):
    """One broker, or a cluster of `brokers` on consecutive ports, on loopback, with its logs under
    `directory`. A context manager that stops it.

    Topics have a replica on each broker.
    """

    name: str
    brokers = 1
    stop_s = 60.0

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port(self.brokers)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    @abc.abstractmethod
    def log_directory(self) -> Path:
        """The directory of the partition directories."""

    @abc.abstractmethod
    def spawn(self) -> Sequence[subprocess.Popen[bytes]]:
        """Starts the processes, with output in `server.log`; does not wait until they serve."""

    @abc.abstractmethod
    def another(self, directory: Path) -> "Peer":
        """A second, empty broker of the same kind."""

    def broker_pids(self) -> Mapping[int, int]:
        """The process ids of the brokers by their node ids, while all of them run."""
        raise BrokerFailed(f"{self.name} is not a cluster")

    @property
    def pid(self) -> int:
        """The process of a peer that has only one."""
        (pid,) = self.pids
        return pid

    @property
    def pids(self) -> list[int]:
        """All processes that were started; their children belong to the peer, too."""
        if not self._processes:
            raise BrokerFailed(f"{self.name} is not running")
        return [process.pid for process in self._processes]

    @property
    def ports(self) -> range:
        return range(self.port, self.port + self.brokers)

    @property
    def address(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self._processes = list(self.spawn())

    def check_running(self) -> None:
        if not self._processes or any(each.poll() is not None for each in self._processes):
            log = (self.directory / "server.log").read_text(errors="replace")
            raise BrokerFailed(f"{self.name} ended: {log[-LOG_TAIL_BYTES:].strip()}")

    def wait_until_serving(self, timeout_s: float = 60.0) -> None:
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            self.check_running()
            try:
                found = AdminClient(self._admin_settings()).list_topics(timeout=2)
            except Exception:  # noqa: BLE001 - whatever it is, the broker does not serve yet
                found = None
            if found is not None and len(found.brokers) == self.brokers:
                return
            time.sleep(0.1)
        raise BrokerFailed(f"{self.name} does not serve after {timeout_s:.0f} s")

    def stop(self) -> None:
        """Sends SIGTERM, then SIGKILL to processes that do not end."""
        processes, self._processes = self._processes, []
        for process in processes:
            process.terminate()
        deadline = time.monotonic() + self.stop_s
        for process in processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def __enter__(self) -> "Peer":
        try:
            self.start()
            self.wait_until_serving()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def create_topic(self, name: str, partitions: int, replicas: int | None = None) -> None:
        """Returns when the topic is created; its partitions may not be served yet."""
        admin = AdminClient(self._admin_settings())
        topic = NewTopic(
            name, num_partitions=partitions, replication_factor=replicas or self.brokers
        )
        admin.create_topics([topic], operation_timeout=ADMIN_S)[name].result(ADMIN_S)

    def delete_topic(self, name: str) -> None:
        admin = AdminClient(self._admin_settings())
        admin.delete_topics([name], operation_timeout=ADMIN_S)[name].result(ADMIN_S)

    def leaders(self, topic: str) -> int:
        """The number of partitions of a topic that have a leader."""
        found = AdminClient(self._admin_settings()).list_topics(topic, timeout=ADMIN_S)
        partitions = found.topics[topic].partitions.values()
        return sum(1 for partition in partitions if partition.leader >= 0)

    def await_served(self, topic: str, partitions: int) -> None:
        """Waits until each partition answers: a known leader may not lead yet."""
        deadline = time.monotonic() + ADMIN_S
        for partition in range(partitions):
            while True:
                try:
                    self.end_offset(topic, partition)
                    break
                except KafkaException as error:
                    self.check_running()
                    if time.monotonic() > deadline:
                        raise BrokerFailed(f"{self.name}: {topic} is not served") from error
                    time.sleep(0.05)

    def end_offset(self, topic: str, partition: int = 0) -> int:
        asked = TopicPartition(topic, partition)
        # Kept in a variable: a client without references is closed.
        admin = AdminClient(self._admin_settings())
        answers = admin.list_offsets({asked: OffsetSpec.latest()})
        return int(answers[asked].result(ADMIN_S).offset)

    def _admin_settings(self) -> dict[str, str | int | float | bool]:
        # Silent: a broker that is starting cannot be reached yet.
        return {"bootstrap.servers": self.address, "log_level": 0}


def free_port(count: int = 1) -> int:
    """The first of `count` consecutive free ports below the kernel's ephemeral range.

    A client that repeatedly connects to an ephemeral port before the server listens may connect to
    itself.
    """
    for port in random.sample(PORTS, len(PORTS)):
        if all(map(_is_free, range(port, port + count))):
            return port
    raise BrokerFailed("no port is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
