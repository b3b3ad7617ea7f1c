"""Valid and invalid starts and ends of a read."""

from datetime import UTC, datetime
from typing import Any

import pytest

import ottla
from ottla.client.arrow.offsets_spec import check_offsets_spec

# Without a time zone on purpose.
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001


@pytest.mark.parametrize(
    "spec", ["earliest", "latest", 0, 7, datetime(2026, 1, 1, tzinfo=UTC), {0: 1, 3: 0}, {}]
)
def test_valid_specs_are_accepted(spec: Any) -> None:
    assert check_offsets_spec(spec) is None


@pytest.mark.parametrize(
    "spec", ["first", "", -1, NAIVE, {0: -1}, {-1: 0}, {"0": 1}, {0: "1"}, {0: True}]
)
def test_an_invalid_value_is_refused_before_any_request(spec: Any) -> None:
    with pytest.raises(ValueError, match=r"no place|no offset|no time zone"):
        ottla.read_topic("orders", spec, bootstrap_servers="127.0.0.1:1")


@pytest.mark.parametrize("spec", [True, None, 1.5, b"earliest", [0]])
def test_a_value_of_another_type_is_refused(spec: Any) -> None:
    with pytest.raises(TypeError, match="no place"):
        ottla.read_topic("orders", end=spec, bootstrap_servers="127.0.0.1:1", batches=True)


def test_an_unknown_isolation_level_is_refused() -> None:
    level: Any = "serializable"
    with pytest.raises(ValueError, match="read_uncommitted, read_committed"):
        ottla.read_topic("orders", isolation=level)
