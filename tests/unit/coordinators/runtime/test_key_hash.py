"""Keys have the same hash as in Kafka."""

import pytest

from ottla.coordinators.runtime.key_hash import java_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("my-group", 240985886), ("grüppe", 914218836), ("😀", 1772899)],
)
def test_keys_are_hashed_as_in_java(text: str, expected: int) -> None:
    assert java_hash(text) == expected
