"""The pytest plugin: one broker for the whole run, one topic name per test."""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ottla.testing.broker import Broker


@pytest.fixture(scope="session")
def ottla_broker() -> Iterator["Broker"]:
    """A broker shared by all tests of the run."""
    # Imported here: every pytest run loads this plugin, and few need a broker.
    from ottla.testing.broker import Broker

    with Broker() as broker:
        yield broker


@pytest.fixture
def ottla_topic(request: pytest.FixtureRequest) -> str:
    """A topic name unique to the test; the topic is created on first use."""
    return re.sub(r"[^a-zA-Z0-9._-]", "-", request.node.nodeid)[-200:]
