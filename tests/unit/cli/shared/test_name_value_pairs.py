"""Options of the form NAME=VALUE."""

import pytest

from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.name_value_pairs import parse_assignments, parse_pairs


def test_pairs_keep_their_order_and_may_repeat_a_name() -> None:
    assert parse_pairs(["b=1", "a=", "b=x=y"], "--header") == [("b", "1"), ("a", ""), ("b", "x=y")]


@pytest.mark.parametrize("text", ["", "name", "=value"])
def test_a_pair_has_a_name_and_a_sign(text: str) -> None:
    with pytest.raises(Failure, match=r"--header .* is not NAME=VALUE") as caught:
        parse_pairs([text], "--header")
    assert caught.value.exit_code is ExitCode.USAGE


def test_an_assignment_may_be_repeated_but_not_contradicted() -> None:
    assert parse_assignments(["a=1", "a=1", "b=2"], "--set") == {"a": "1", "b": "2"}
    with pytest.raises(Failure, match="--set gives a two values"):
        parse_assignments(["a=1", "a=2"], "--set")
