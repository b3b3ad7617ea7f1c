"""Transactions of Apache Kafka: all committed records are read, and no others."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.spark.clusters import Cluster, on
from tests.support.spark.streams import Stream
from tests.support.spark.topics import Topics, numbered
from tests.support.spark.transactions import COMMITTED, Transactions

pytestmark = on(Cluster.KAFKA)


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
