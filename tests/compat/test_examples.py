"""The examples about transactions copy each record exactly once, also after a failure."""

import asyncio
import itertools
import time
from importlib import import_module
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import KafkaError as RdKafkaError

from ottla.testing import Broker
from tests.support.cli.run_command import at, ottla

RECORDS = 2_000
WAIT_S = 120.0
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def servers(request: pytest.FixtureRequest, broker: Broker) -> str:
    if request.param == "ottla":
        return broker.bootstrap_servers
    address: str = request.getfixturevalue("apache_kafka")
    return address


@pytest.fixture
def topics(servers: str) -> tuple[str, str]:
    """A source with records in partition 0, and an empty target."""
    number = next(_numbers)
    source, target = f"example-orders-{number}", f"example-invoices-{number}"
    assert ottla("topic", "create", source, target, *at(servers)).exit_code == 0
    producer = Producer({"bootstrap.servers": servers})
    for index in range(RECORDS):
        producer.produce(source, b"%d" % index, partition=0)
    assert producer.flush(WAIT_S) == 0
    return source, target


def committed_values(servers: str, topic: str) -> list[int]:
    """What a reader of committed records sees, in the order of the log."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reader-of-{topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    values: list[int] = []
    deadline = time.monotonic() + WAIT_S
    while len(values) < RECORDS:
        assert time.monotonic() < deadline, len(values)
        values += [int(each.value()) for each in consumer.consume(RECORDS, 0.5)]
    values += [int(each.value()) for each in consumer.consume(RECORDS, 1.0)]
    consumer.close()
    return values


class FailingOnce:
    """A producer whose first transaction fails before its commit."""

    def __init__(self, producer: Any, failing: str, error: Exception) -> None:
        self._producer = producer
        self._failing: str | None = failing
        self._error = error

    def __getattr__(self, name: str) -> Any:
        if name == self._failing:
            self._failing = None
            raise self._error
        return getattr(self._producer, name)


def test_confluent_kafka_copies_exactly_once(servers: str, topics: tuple[str, str]) -> None:
    example = import_module("examples.exactly_once_confluent")
    source, target = topics
    consumer = example.open_consumer(source, servers, f"copy-{source}")
    abortable = KafkaException(RdKafkaError(RdKafkaError._FAIL, txn_requires_abort=True))
    producer = FailingOnce(
        example.open_producer(servers, f"copy-{source}"), "commit_transaction", abortable
    )
    copied, deadline = 0, time.monotonic() + WAIT_S
    while copied < RECORDS:
        assert time.monotonic() < deadline, copied
        copied += example.copy_some(consumer, producer, target)
    consumer.close()
    assert committed_values(servers, target) == list(range(RECORDS))


def test_aiokafka_copies_exactly_once(servers: str, topics: tuple[str, str]) -> None:
    example = import_module("examples.exactly_once_aiokafka")
    source, target = topics
    group = f"copy-{source}"

    async def copy() -> None:
        async with (
            example.open_consumer(servers, group) as consumer,
            AIOKafkaProducer(bootstrap_servers=servers, transactional_id=group) as real,
        ):
            producer = FailingOnce(real, "send_offsets_to_transaction", KafkaError())
            consumer.assign([TopicPartition(source, 0)])
            copied = 0
            async with asyncio.timeout(WAIT_S):
                while copied < RECORDS:
                    copied += await example.copy_some(consumer, producer, target, group)

    asyncio.run(copy())
    assert committed_values(servers, target) == list(range(RECORDS))
