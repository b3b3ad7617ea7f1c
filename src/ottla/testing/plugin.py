"""The pytest plugin: a broker for the whole run, a topic name for each test."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import Broker


@pytest.fixture(scope="session")
def ottla_broker() -> Iterator["Broker"]:
    """A broker that every test of the run shares."""
    # Imported here: every pytest run loads this plugin, few need a broker.
    from ottla.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has; the topic is made when it is first used."""
    return re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.nodeid)[-200:]
