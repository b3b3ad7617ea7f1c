"""Places in a topic as users say them, and those that are none."""

from datetime import UTC, datetime
from typing import Any

import pytest

import ottla
from ottla.client.arrow.offsets_spec import check_place

# Made so that a naive one is what is looked at; nothing asks which zone it would be in.
NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001


@pytest.mark.parametrize(
    "place", ["earliest", "latest", 0, 7, datetime(2026, 1, 1, tzinfo=UTC), {0: 1, 3: 0}, {}]
)
def test_places_are_places(place: Any) -> None:
    assert check_place(place) is None


@pytest.mark.parametrize(
    "place", ["first", "", -1, NAIVE, {0: -1}, {-1: 0}, {"0": 1}, {0: "1"}, {0: True}]
)
def test_what_is_no_place_is_refused_before_anybody_is_asked(place: Any) -> None:
    with pytest.raises(ValueError, match=r"no place|no offset|no time zone"):
        ottla.read_topic("orders", place, bootstrap_servers="127.0.0.1:1")


@pytest.mark.parametrize("place", [True, None, 1.5, b"earliest", [0]])
def test_what_is_of_no_kind_of_place_is_refused(place: Any) -> None:
    with pytest.raises(TypeError, match="no place"):
        ottla.read_topic("orders", end=place, bootstrap_servers="127.0.0.1:1", batches=True)


def test_an_isolation_that_there_is_not_is_refused() -> None:
    level: Any = "serializable"
    with pytest.raises(ValueError, match="read_uncommitted, read_committed"):
        ottla.read_topic("orders", isolation=level)
