"""Forms of types: which have one, and what both directions hold to."""

from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import pytest

from ottla.metadata.json_form import Length, Misfit, Range, dump, form_of, object_form, parse

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
def test_a_type_without_limits_or_order_has_no_form(kind: Any) -> None:
    with pytest.raises(TypeError):
        form_of(kind)


def test_nested_values_come_back() -> None:
    form = object_form(Outer)
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
    with pytest.raises(Misfit, match=complaint):
        object_form(Outer).write(value)


def test_equal_documents_are_equal_bytes() -> None:
    assert dump({"b": 1, "a": "ö"}) == dump({"a": "ö", "b": 1}) == '{"a":"ö","b":1}'.encode()
