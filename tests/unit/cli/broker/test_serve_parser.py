"""`ottla serve` without typer: the same broker as with it, and everything else left to it."""

import re

import pytest

from ottla.cli.broker import process
from ottla.cli.broker.process import Order
from ottla.cli.broker.serve_parser import plain_words
from tests.support.cli.run_command import ottla

PLAIN = [
    [],
    ["--data", "a b=c", "--port", "0"],
    ["--data=/d", "--host=::1", "--port=65535", "--metrics-port", "7"],
    ["--set", "x=y=z", "--set=v=", "--config", "f.toml"],
    ["--port", "00"],
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
]


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> list[Order]:
    """What typer's reading would have become."""
    given: list[Order] = []
    monkeypatch.setattr(process, "become", given.append)
    return given


@pytest.mark.parametrize("options", PLAIN)
def test_what_is_plain_means_what_typer_says(orders: list[Order], options: list[str]) -> None:
    assert ottla("serve", *options).exit_code == 0
    words = plain_words(["serve", *options])
    assert words is not None
    assert Order.parse([*words, f"program={orders[0].program}"]) == orders[0]


@pytest.mark.parametrize("options", LEFT_TO_THE_LIBRARY)
def test_what_is_not_plain_is_left_to_typer(options: list[str]) -> None:
    assert plain_words(["serve", *options]) is None


@pytest.mark.parametrize("arguments", [[], ["up"], ["--debug", "serve"], ["topic", "list"]])
def test_only_serve_is_read_here(arguments: list[str]) -> None:
    assert plain_words(arguments) is None


def test_every_option_of_serve_is_known_here() -> None:
    options = set(re.findall(r"--[a-z-]+", ottla("serve", "--help").stdout)) - {"--help"}
    assert len(options) == 6
    for option in options:
        assert plain_words(["serve", option, "1"]) is not None, option
