"""`ottla serve` without typer: the same broker as with it; typer handles all other calls."""

import re

import pytest

from ottla.cli.broker import process
from ottla.cli.broker.invocation import BrokerInvocation
from ottla.cli.broker.serve_parser import plain_serve_arguments
from tests.support.cli.run_command import ottla

PLAIN = [
    [],
    ["--data", "a b=c", "--port", "0"],
    ["--data=/d", "--host=::1", "--port=65535", "--metrics-port", "7"],
    ["--set", "x=y=z", "--set=v=", "--config", "f.toml"],
    ["--port", "00"],
    ["--zookeeper", "a:1,b:2/c", "--set", "node.id=2"],
]
LEFT_TO_THE_LIBRARY = [
    ["--help"],
    ["extra"],
    ["--no-such-option", "x"],
    ["--dat", "x"],
    ["data=x"],
    ["--data"],
    ["--data="],
    ["--data", "--port"],
    ["--port", "70000"],
    ["--port", "-1"],
    ["--port", " 1"],
    ["--port", "\u0661"],
    ["--port", "1", "--port", "2"],
    ["--", "x"],
    ["--processes", "2"],
]


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[BrokerInvocation]:
    """The invocation that typer's parsing would give."""
    given: list[BrokerInvocation] = []
    monkeypatch.setattr(process, "exec_broker", given.append)
    return given


@pytest.mark.parametrize("options", PLAIN)
def test_a_plain_call_is_parsed_as_typer_parses_it(
    orders: list[BrokerInvocation], options: list[str]
) -> None:
    assert ottla("serve", *options).exit_code == 0
    words = plain_serve_arguments(["serve", *options])
    assert words is not None
    assert BrokerInvocation.parse([*words, f"program={orders[0].program}"]) == orders[0]


@pytest.mark.parametrize("options", LEFT_TO_THE_LIBRARY)
def test_other_calls_are_left_to_typer(options: list[str]) -> None:
    assert plain_serve_arguments(["serve", *options]) is None


@pytest.mark.parametrize("arguments", [[], ["up"], ["--debug", "serve"], ["topic", "list"]])
def test_only_serve_is_read_here(arguments: list[str]) -> None:
    assert plain_serve_arguments(arguments) is None


def test_every_option_of_serve_is_known_here() -> None:
    options = set(re.findall(r"--[a-z-]+", ottla("serve", "--help").stdout)) - {"--help"}
    # The process of several brokers is not a broker's.
    options.remove("--processes")
    assert len(options) == 7
    for option in options:
        assert plain_serve_arguments(["serve", option, "1"]) is not None, option
