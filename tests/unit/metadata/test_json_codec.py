"""JSON codecs by type: supported types, and strict encoding and decoding."""

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import pytest

from ottla.metadata.json_codec import (
    ADDED_LATER,
    JsonMismatch,
    Length,
    Range,
    codec_of,
    dump,
    object_codec,
    parse,
)

Digit = Annotated[int, Range(0, 9)]


class Pair(NamedTuple):
    first: Digit
    second: Digit


@dataclass(frozen=True)
class Inner:
    digit: Digit


@dataclass(frozen=True)
class Outer:
    pairs: tuple[Pair, ...]
    inner: Inner | None


@pytest.mark.parametrize(
    "kind", [int, str, dict[str, bool], bool | float, Annotated[bytes, Length(0, 1)]]
)
def test_a_type_without_limits_or_order_has_no_codec(kind: Any) -> None:
    with pytest.raises(TypeError):
        codec_of(kind)


def test_nested_values_survive_a_round_trip() -> None:
    form = object_codec(Outer)
    for value in (Outer((), None), Outer((Pair(1, 2), Pair(3, 4)), Inner(5))):
        assert form.read(parse(dump(form.write(value)))) == value


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (Outer((Pair(1, 10),), None), r"pairs\[0\]: a number outside of \[0, 9\]"),
        (Outer(((1, 2),), None), r"pairs\[0\]: Pair expected, tuple found"),  # type: ignore[arg-type]
        (Outer([Pair(1, 2)], None), "pairs: tuple expected, list found"),  # type: ignore[arg-type]
        (Outer((), Inner(-1)), "inner.digit: a number outside"),
        (Outer((), Pair(1, 2)), "inner: Inner expected, Pair found"),  # type: ignore[arg-type]
    ],
)
def test_a_value_that_is_not_of_its_type_is_not_written(value: Outer, complaint: str) -> None:
    with pytest.raises(JsonMismatch, match=complaint):
        object_codec(Outer).write(value)


def test_equal_documents_are_equal_bytes() -> None:
    assert dump({"b": 1, "a": "ö"}) == dump({"a": "ö", "b": 1}) == '{"a":"ö","b":1}'.encode()


@dataclass(frozen=True)
class Grown:
    digit: Digit
    more: Digit | None = field(default=None, metadata=ADDED_LATER)


def test_a_field_added_later_is_left_out_if_it_has_its_default() -> None:
    form = object_codec(Grown)
    assert form.write(Grown(1)) == {"digit": 1}
    assert form.write(Grown(1, 2)) == {"digit": 1, "more": 2}
    for value in (Grown(1), Grown(1, 2)):
        assert form.read(form.write(value)) == value


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ({"digit": 1, "more": None}, "more: a default, which is left out"),
        ({"digit": 1, "more": 10}, "more: a number outside"),
        ({"more": 1}, "field 'digit' is missing"),
        ({}, "field 'digit' is missing"),
        ({"digit": 1, "other": 1}, "field 'other' is not known"),
    ],
)
def test_an_object_with_a_field_added_later_is_as_strict_as_others(
    found: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(JsonMismatch, match=complaint):
        object_codec(Grown).read(found)


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ([True, 2], "int expected, bool found"),
        ([1.0, 2], "int expected, float found"),
        ([[1], 2], "int expected, list found"),
        ([1, 10], "a number outside"),
        ([1], "2 values expected, 1 found"),
    ],
)
def test_a_row_that_equals_a_known_one_is_still_checked(row: list[Any], complaint: str) -> None:
    form = codec_of(Pair)
    assert form.read([1, 2]) is form.read([1, 2])
    with pytest.raises(JsonMismatch, match=complaint):
        form.read(row)


def test_the_order_of_fields_does_not_matter() -> None:
    form = object_codec(Outer)
    assert form.read({"pairs": [], "inner": None}) == form.read({"inner": None, "pairs": []})


def test_a_mismatch_names_the_place_in_a_list() -> None:
    found = {"inner": None, "pairs": [[1, 2], [3, 4], [5, 66]]}
    with pytest.raises(JsonMismatch, match=r"^pairs\[2\]: a number outside"):
        object_codec(Outer).read(found)
