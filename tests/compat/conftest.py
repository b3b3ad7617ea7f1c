"""One broker for all tests of clients in a process, and a topic for each test."""

from collections.abc import Iterator

import pytest

from ottla.testing import Broker
from tests.support.compat.kafka_peer import kafka_peer


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """It keeps records of any age: a test may take longer than until it looks for old ones."""
    with Broker({"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture(scope="session")
def apache_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One Apache Kafka for all tests that need no settings of their own.

    They are of one group, so that one process runs them all where several share the tests.
    """
    with kafka_peer(tmp_path_factory.mktemp("kafka")) as address:
        yield address


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topic(ottla_topic: str) -> str:
    return ottla_topic
