"""Keys are spread over partitions as Kafka spreads them."""

import pytest

from ottla.coordinators.runtime.key_hash import java_hash


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("my-group", 240985886), ("grüppe", 914218836), ("😀", 1772899)],
)
def test_keys_are_spread_by_the_hash_that_java_has(text: str, expected: int) -> None:
    assert java_hash(text) == expected
