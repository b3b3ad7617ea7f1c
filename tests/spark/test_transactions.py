"""Transactions of an Apache Kafka: only what is committed is read, and all of it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tests.compat.kafka_peer import kafka_peer
from tests.spark.streams import Stream
from tests.spark.topics import WAIT_S, Topics, numbered

COMMITTED = {"kafka.isolation.level": "read_committed"}


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_peer(tmp_path_factory.mktemp("kafka")) as servers:
        yield servers


class Transactions:
    """A producer whose records count when it says so."""

    def __init__(self, servers: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer({"bootstrap.servers": servers, "transactional.id": topic})
        self._producer.init_transactions(WAIT_S)

    def begin(self, first: int, end: int) -> None:
        self._producer.begin_transaction()
        for value in numbered(first, end):
            self._producer.produce(self._topic, value, partition=0)
        assert self._producer.flush(WAIT_S) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(WAIT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(WAIT_S)


def values(spark: SparkSession, servers: str, topic: str, **options: str) -> list[int]:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", servers)
    return sorted(int(row.value) for row in reader.options(**options).load(topic).collect())


def test_a_batch_reads_up_to_the_first_transaction_that_is_not_over(
    spark: SparkSession, servers: str, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    transactions = Transactions(servers, topic)
    transactions.begin(0, 10)
    transactions.commit()
    transactions.begin(10, 20)
    transactions.abort()
    transactions.begin(20, 30)
    topics.send(topic, numbered(30, 40))
    assert values(spark, servers, topic, **COMMITTED) == list(range(10))
    assert values(spark, servers, topic) == list(range(40))
    transactions.commit()
    assert values(spark, servers, topic, **COMMITTED) == [*range(10), *range(20, 40)]


def test_a_stream_waits_for_a_transaction_and_then_reads_it_once(
    spark: SparkSession, servers: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.make(topic)
    stream = Stream(spark, servers, topic, tmp_path)
    transactions = Transactions(servers, topic)
    transactions.begin(0, 10)
    stream.run(**COMMITTED)
    transactions.abort()
    transactions.begin(10, 20)
    stream.run(**COMMITTED)
    transactions.commit()
    stream.run(**COMMITTED)
    stream.run(**COMMITTED)
    assert stream.values() == list(range(10, 20))


def test_a_span_that_ends_in_markers_is_read_to_its_end(
    spark: SparkSession, servers: str, topics: Topics, topic: str
) -> None:
    topics.make(topic)
    transactions = Transactions(servers, topic)
    for start in range(0, 50, 10):
        transactions.begin(start, start + 10)
        transactions.abort()
    assert values(spark, servers, topic, **COMMITTED, maxRecordsPerPartition="3") == []
