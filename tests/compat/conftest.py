"""One broker for all tests of clients in a process, by the plugin that our users have."""

import pytest

from ottla.testing import Broker


@pytest.fixture(scope="session")
def broker(ottla_broker: Broker) -> Broker:
    return ottla_broker


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


@pytest.fixture
def topic(ottla_topic: str) -> str:
    return ottla_topic
