"""A broker shared by the tests of commands, each with its own topics."""

import itertools
from collections.abc import Iterator
from typing import Protocol

import pytest
from typer.testing import CliRunner

from ottla.cli.app import app
from ottla.testing.broker import Broker
from tests.support.cli.run_command import Ran, at

_numbers = itertools.count(1)


class AtBroker(Protocol):
    def __call__(self, *arguments: str, text: str | bytes = "") -> Ran:
        """Runs `ottla …` against the broker, with this on standard input."""
        ...


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def at_broker(broker: Broker) -> AtBroker:
    def run(*arguments: str, text: str | bytes = "") -> Ran:
        command = [*arguments, *at(broker.bootstrap_servers)]
        result = CliRunner().invoke(app, command, input=text)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def topic() -> str:
    """A name that no other test uses."""
    return f"topic-{next(_numbers)}"
