"""Counts with singular and plural nouns."""

from ottla.cli.shared.plurals import counted


def test_only_one_is_singular() -> None:
    assert [counted(number, "offset") for number in (0, 1, 2)] == [
        "0 offsets",
        "1 offset",
        "2 offsets",
    ]


def test_an_irregular_plural_is_given() -> None:
    assert [counted(number, "batch", "batches") for number in (1, 2)] == ["1 batch", "2 batches"]
