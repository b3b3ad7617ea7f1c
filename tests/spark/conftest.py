"""One Spark session for all tests, on two cores, with a broker of ours and one of Apache Kafka."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.spark import session
from ottla.testing import Broker
from tests.support.compat.kafka_peer import kafka_peer
from tests.support.spark.clusters import Cluster
from tests.support.spark.topics import Topics

CONNECTOR_JARS = Path(os.environ.get("SPARK_CONNECTOR_JARS", ".cache/spark-kafka-4.2.0"))
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # Little is done often enough here to be worth Java's second compiler.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "10ms",
    # It reports a look that found nothing at once, not only on a machine that stood still before.
    "spark.sql.streaming.noDataProgressEventInterval": "0",
    # Records read are counted per stage: keep all stages, for any number of tests.
    "spark.ui.retainedStages": "1000000",
    # Spark's own connector, for the tests that compare with it.
    "spark.driver.extraClassPath": f"{CONNECTOR_JARS.resolve()}/*",
}
# Java, Spark and Kafka beside each other: a busy machine takes its time.
TEST_TIMEOUT_S = 1_200


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever test says nothing else has this time."""
    for item in items:
        if Path(__file__).parent in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    places = tmp_path_factory.mktemp("spark")
    conf = CONF | {
        "spark.sql.warehouse.dir": str(places / "warehouse"),
        "spark.local.dir": str(places / "local"),
    }
    spark = session("tests", master="local[2]", conf=conf)
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


@pytest.fixture(scope="session")
def ottla_servers() -> Iterator[str]:
    # Compaction does not wait; and records of long ago are kept, whenever retention looks.
    with Broker({"log.cleaner.backoff.ms": "100", "log.retention.ms": "-1"}) as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def kafka_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with kafka_peer(tmp_path_factory.mktemp("kafka")) as servers:
        yield servers


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Ours, unless the test says otherwise."""
    return getattr(request, "param", Cluster.OTTLA)


@pytest.fixture
def servers(request: pytest.FixtureRequest, cluster: Cluster) -> str:
    """Where the brokers are that the test is about."""
    address: str = request.getfixturevalue(f"{cluster}_servers")
    return address


@pytest.fixture
def topics(servers: str) -> Topics:
    return Topics(servers)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A topic name unique to the test; the topic is not created yet."""
    return re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.name)[:200]


@pytest.fixture
def connector() -> str:
    """The format of Spark's own connector."""
    if not any(CONNECTOR_JARS.glob("spark-sql-kafka-*.jar")):
        pytest.fail(
            f"Spark's Kafka connector (in {CONNECTOR_JARS}) is needed: run `make test`",
            pytrace=False,
        )
    return "kafka"
