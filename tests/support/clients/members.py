"""Members of one classic group, of every client: each reads in a thread or a process of its own."""

import asyncio
import os
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from confluent_kafka import Consumer, KafkaError, TopicPartition

from tests.support.clients.client import WAIT_S
from tests.support.clients.kafka_python import KafkaConsumer
from tests.support.compat.java_tools import JARS, JVM, TOOLS

POLL_S = 0.05
# Long, so that nobody is given up because the machine is slow.
SESSION_MS = 45_000
HEARTBEAT_MS = 300
COMMIT_MS = 200
# The other protocol takes none of these: its broker says them.
CLASSIC = {
    "partition.assignment.strategy": "range",
    "session.timeout.ms": SESSION_MS,
    "heartbeat.interval.ms": HEARTBEAT_MS,
}
# A client looks for a coordinator that is not there yet, and finds it later.
PASSING = {KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._TIMED_OUT}


class GroupMember(Protocol):
    """It reads and commits until it is closed; then it leaves the group, unless it is static."""

    values: list[bytes]

    def close(self) -> None: ...


class Threaded(ABC):
    """A consumer that lives in a thread."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self._is_closing = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._guarded, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closing.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def _guarded(self) -> None:
        try:
            self._read()
        except Exception as error:  # noqa: BLE001 - the test's thread is told by `close`
            self._failure = error

    @abstractmethod
    def _read(self) -> None:
        """Until it is closed."""


class LibrdkafkaMember(Threaded):
    """`rebalances` are the partitions that each rebalance gave it or took from it."""

    def __init__(self, servers: str, group: str, topic: str, **settings: str) -> None:
        self.rebalances: list[tuple[str, list[int]]] = []
        self._topic = topic
        self._settings: dict[str, Any] = {
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": COMMIT_MS,
            # Else what is being handed over could be committed already.
            "enable.auto.offset.store": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        if "group_protocol" not in settings:
            self._settings = CLASSIC | self._settings
        super().__init__()

    def _read(self) -> None:
        consumer = Consumer(self._settings)
        consumer.subscribe(
            [self._topic], on_assign=self._noting("given"), on_revoke=self._noting("taken")
        )
        try:
            while not self._is_closing.is_set():
                message = consumer.poll(POLL_S)
                if message is None:
                    continue
                if message.error() is not None:
                    assert message.error().code() in PASSING, message.error()
                    continue
                self.values.append(message.value() or b"")
                consumer.store_offsets(message)
        finally:
            consumer.close()

    def _noting(self, what: str) -> Callable[[Consumer, list[TopicPartition]], None]:
        def note(_: Consumer, partitions: list[TopicPartition]) -> None:
            self.rebalances.append((what, sorted(each.partition for each in partitions)))

        return note


class KafkaPythonMember(Threaded):
    def __init__(
        self, servers: str, group: str, topic: str, session_timeout_ms: str = str(SESSION_MS)
    ) -> None:
        self._servers, self._group, self._topic = servers, group, topic
        self._session_ms = int(session_timeout_ms)
        super().__init__()

    def _read(self) -> None:
        consumer = KafkaConsumer(
            self._topic,
            bootstrap_servers=self._servers,
            group_id=self._group,
            auto_offset_reset="earliest",
            session_timeout_ms=self._session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            auto_commit_interval_ms=COMMIT_MS,
        )
        try:
            while not self._is_closing.is_set():
                for records in consumer.poll(timeout_ms=int(POLL_S * 1000)).values():
                    self.values += [record.value for record in records]
        finally:
            consumer.close()


class AioKafkaMember(Threaded):
    def __init__(
        self, servers: str, group: str, topic: str, session_timeout_ms: str = str(SESSION_MS)
    ) -> None:
        self._servers, self._group, self._topic = servers, group, topic
        self._session_ms = int(session_timeout_ms)
        super().__init__()

    def _read(self) -> None:
        asyncio.run(self._read_on())

    async def _read_on(self) -> None:
        consumer = AIOKafkaConsumer(
            self._topic,
            bootstrap_servers=self._servers,
            group_id=self._group,
            auto_offset_reset="earliest",
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=self._session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            auto_commit_interval_ms=COMMIT_MS,
        )
        await consumer.start()
        try:
            while not self._is_closing.is_set():
                polled = await consumer.getmany(timeout_ms=int(POLL_S * 1000))
                for records in polled.values():
                    self.values += [record.value for record in records]
        finally:
            await consumer.stop()


class JavaMember:
    """Kafka's console consumer, of the classic protocol."""

    def __init__(self, servers: str, group: str, topic: str) -> None:
        self.values: list[bytes] = []
        settings = {
            "group.protocol": "classic",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": str(HEARTBEAT_MS),
            "auto.commit.interval.ms": str(COMMIT_MS),
        }
        self._process = subprocess.Popen(
            [
                *("java", *JVM, "-cp", f"{JARS}/*", f"{TOOLS}.consumer.ConsoleConsumer"),
                *("--bootstrap-server", servers, "--topic", topic, "--group", group),
                *(
                    word
                    for name, value in settings.items()
                    for word in ("--command-property", f"{name}={value}")
                ),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(WAIT_S)
        self._thread.join(WAIT_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as printed:
            for line in printed:
                self.values.append(line.rstrip(b"\n"))
