"""One broker for all tests of clients in a process, and a topic for each test."""

from collections.abc import Iterator

import pytest

from ottla.testing import Broker


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """It keeps records of any age: a test may take longer than until it looks for old ones."""
    with Broker({"log.retention.ms": "-1"}) as running:
        yield running


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topic(ottla_topic: str) -> str:
    return ottla_topic
