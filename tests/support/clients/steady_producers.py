"""Producers of every client that send numbers until they are stopped. All of them are idempotent.

Their settings are the clients' defaults: they are to live through failovers without advice.
"""

import asyncio
import json
import os
import subprocess
import threading
from pathlib import Path
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Message, Producer

from tests.support.clients.client import WAIT_S
from tests.support.clients.kafka_python import KafkaProducer
from tests.support.clients.members import Threaded
from tests.support.compat.java_tools import JARS, JVM, TOOLS

# Between two records of one producer. Failovers take seconds, so each one meets hundreds of them.
PAUSE_S = 0.005
JAVA_RECORDS_PER_S = 200


class SteadyProducer(Protocol):
    """Sends 0, 1, 2, … to partitions of the client's choice, or in turn."""

    acknowledged: list[int]
    errors: list[object]

    def close(self) -> None:
        """Waits until all that was sent is acknowledged or has failed."""
        ...


class ThreadedProducer(Threaded):
    """`values`, which a reader of a thread has, stays empty."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        self.acknowledged: list[int] = []
        self.errors: list[object] = []
        self._servers, self._topic, self._partitions = servers, topic, partitions
        super().__init__()

    def _note(self, number: int, error: object) -> None:
        if error is None:
            self.acknowledged.append(number)
        else:
            self.errors.append(error)


class LibrdkafkaProducer(ThreadedProducer):
    def _read(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._servers, "enable.idempotence": True, "log_level": 0}
        )
        number = 0
        while not self._is_closing.is_set():
            producer.produce(
                self._topic,
                b"%d" % number,
                partition=number % self._partitions,
                on_delivery=self._delivered,
            )
            number += 1
            producer.poll(PAUSE_S)
        assert producer.flush(WAIT_S) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._note(int(message.value() or b""), error)


class KafkaPythonProducer(ThreadedProducer):
    def _read(self) -> None:
        producer = KafkaProducer(bootstrap_servers=self._servers, enable_idempotence=True)
        number = 0
        try:
            while not self._is_closing.wait(PAUSE_S):
                sent = producer.send(
                    self._topic, b"%d" % number, partition=number % self._partitions
                )
                sent.add_callback(lambda _, number=number: self._note(number, None))
                sent.add_errback(lambda error, number=number: self._note(number, error))
                number += 1
            producer.flush(timeout=WAIT_S)
        finally:
            producer.close()


class AioKafkaProducer(ThreadedProducer):
    def _read(self) -> None:
        asyncio.run(self._send())

    async def _send(self) -> None:
        producer = AIOKafkaProducer(bootstrap_servers=self._servers, enable_idempotence=True)
        await producer.start()
        number = 0
        under_way: set[asyncio.Task[None]] = set()
        try:
            while not self._is_closing.is_set():
                coming = await producer.send(
                    self._topic, b"%d" % number, partition=number % self._partitions
                )
                task = asyncio.create_task(self._wait_for(number, coming))
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                number += 1
                await asyncio.sleep(PAUSE_S)
            await asyncio.gather(*under_way)
        finally:
            await producer.stop()

    async def _wait_for(self, number: int, coming: "asyncio.Future[Any]") -> None:
        try:
            await coming
        except Exception as error:  # noqa: BLE001 - any error fails the test
            self._note(number, error)
        else:
            self._note(number, None)


class JavaProducer:
    """Kafka's verifiable producer, with the retries that a producer has by default."""

    def __init__(self, servers: str, topic: str, directory: Path) -> None:
        self.acknowledged: list[int] = []
        self.errors: list[object] = []
        config = directory / f"producer-of-{topic}.properties"
        # The tool alone would not retry, and would not be idempotent.
        config.write_text("retries=2147483647\nenable.idempotence=true\n")
        self._process = subprocess.Popen(
            [
                *("java", *JVM, "-cp", f"{JARS}/*", f"{TOOLS}.VerifiableProducer"),
                *("--bootstrap-server", servers, "--topic", topic, "--acks", "-1"),
                *("--throughput", str(JAVA_RECORDS_PER_S), "--command-config", str(config)),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"LC_ALL": "C.UTF-8"},
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(WAIT_S)
        finally:
            self._process.kill()
        self._thread.join(WAIT_S)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as printed:
            for line in printed:
                event = json.loads(line)
                if event["name"] == "producer_send_success":
                    self.acknowledged.append(int(event["value"]))
                elif event["name"] == "producer_send_error":
                    self.errors.append(event)
