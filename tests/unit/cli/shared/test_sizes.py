"""Sizes for people."""

import pytest

from ottla.cli.shared.sizes import size_text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1.0 KiB"),
        (1536 << 10, "1.5 MiB"),
        (3 << 30, "3.0 GiB"),
        (5000 << 40, "5000.0 TiB"),
    ],
)
def test_a_size_has_its_largest_unit(size_bytes: int, text: str) -> None:
    assert size_text(size_bytes) == text
