"""Clients that stay: a producer and a consumer of one topic, for as long as a test takes.

The producer is idempotent. The consumer reads partition 0 from its start, begins again where its
position is out of range, and asks the broker to hold each fetch far longer than it waits for one.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaError, Producer, TopicPartition

from tests.support.clients import aio_kafka, kafka_python, librdkafka
from tests.support.clients.client import WAIT_S

LONG_POLL_MS = int(2 * WAIT_S * 1000)
POLL_S = 1.0


class Session(Protocol):
    """One client's producer and consumer."""

    def send(self, *values: bytes) -> None:
        """All acknowledged on return."""
        ...

    def receive(self) -> bytes:
        """The next record's value; gives up long before a fetch that is held comes back empty."""
        ...

    def close(self) -> None: ...


OpenSession = Callable[[str, str], Session]


class LibrdkafkaSession:
    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        self._consumer = librdkafka.open_consumer(
            servers, fetch_wait_max_ms=LONG_POLL_MS, auto_offset_reset="earliest"
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def send(self, *values: bytes) -> None:
        errors: list[KafkaError | None] = []
        for value in values:
            self._producer.produce(
                self._topic, value, partition=0, on_delivery=lambda error, _: errors.append(error)
            )
        self._producer.flush(WAIT_S)
        assert errors == [None] * len(values)

    def receive(self) -> bytes:
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            message = self._consumer.poll(POLL_S)
            # What it meets on the way (a broker away, a topic gone) it tells, and goes on.
            if message is not None and message.error() is None:
                value = message.value()
                assert value is not None
                return bytes(value)
        raise TimeoutError

    def close(self) -> None:
        self._consumer.close()


class KafkaPythonSession:
    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._producer = kafka_python.KafkaProducer(
            bootstrap_servers=servers, enable_idempotence=True, reconnect_backoff_max_ms=500
        )
        self._consumer = kafka_python.open_consumer(
            servers,
            fetch_max_wait_ms=LONG_POLL_MS,
            request_timeout_ms=2 * LONG_POLL_MS,
            reconnect_backoff_max_ms=500,
            auto_offset_reset="earliest",
        )
        self._received: list[bytes] = []
        partition = kafka_python.TopicPartition(topic, 0)
        self._consumer.assign([partition])
        self._consumer.seek(partition, 0)

    def send(self, *values: bytes) -> None:
        coming = [self._producer.send(self._topic, value, partition=0) for value in values]
        for each in coming:
            each.get(timeout=WAIT_S)

    def receive(self) -> bytes:
        deadline = time.monotonic() + WAIT_S
        while not self._received and time.monotonic() < deadline:
            self._received = [record.value or b"" for record in kafka_python.poll(self._consumer)]
        return self._received.pop(0)

    def close(self) -> None:
        self._producer.close()
        self._consumer.close()


class AioKafkaSession:
    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._runner = asyncio.Runner()
        self._runner.run(self._open(servers))

    async def _open(self, servers: str) -> None:
        self._producer = AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True)
        await self._producer.start()
        self._consumer = aio_kafka.open_consumer(
            servers,
            fetch_max_wait_ms=LONG_POLL_MS,
            request_timeout_ms=2 * LONG_POLL_MS,
            auto_offset_reset="earliest",
        )
        await self._consumer.start()
        partition = AioTopicPartition(self._topic, 0)
        self._consumer.assign([partition])
        self._consumer.seek(partition, 0)

    def send(self, *values: bytes) -> None:
        self._runner.run(self._send(values))

    async def _send(self, values: tuple[bytes, ...]) -> None:
        async with asyncio.timeout(WAIT_S):
            coming = [
                await self._producer.send(self._topic, value, partition=0) for value in values
            ]
            await asyncio.gather(*coming)

    def receive(self) -> bytes:
        return self._runner.run(self._receive())

    async def _receive(self) -> bytes:
        async with asyncio.timeout(WAIT_S):
            while True:
                try:
                    return (await self._consumer.getone()).value or b""
                except AioKafkaError:
                    # Told once, then it goes on.
                    continue

    def close(self) -> None:
        self._runner.run(self._close())
        self._runner.close()

    async def _close(self) -> None:
        await self._producer.stop()
        await self._consumer.stop()


SESSIONS: dict[str, OpenSession] = {
    "librdkafka": LibrdkafkaSession,
    "kafka-python": KafkaPythonSession,
    "aiokafka": AioKafkaSession,
}
