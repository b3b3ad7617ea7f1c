"""Fast construction of named tuples."""

from typing import NamedTuple

from ottla.tuples import maker


class Point(NamedTuple):
    x: int
    y: int


def test_a_maker_makes_what_the_class_makes() -> None:
    made = maker(Point)([1, 2])
    assert made == Point(1, 2)
    assert type(made) is Point
    assert (made.x, made.y) == (1, 2)
