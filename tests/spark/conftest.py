"""One Spark for all tests, on two cores, beside a broker of our own."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.spark import session
from ottla.testing import Broker
from tests.spark.topics import Topics

CONNECTOR_JARS = Path(os.environ.get("SPARK_CONNECTOR_JARS", ".cache/spark-kafka-4.2.0"))
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "768m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.pollingDelay": "10ms",
    # Spark's own connector, for the tests that compare with it.
    "spark.driver.extraClassPath": f"{CONNECTOR_JARS.resolve()}/*",
}


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


@pytest.fixture
def servers(ottla_broker: Broker) -> str:
    return ottla_broker.bootstrap_servers


@pytest.fixture
def topics(servers: str) -> Topics:
    return Topics(servers)


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    """A name that no other test has; the topic is not made yet."""
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
