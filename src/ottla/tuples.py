"""Fast construction of named tuples for hot paths, in C alone."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

TupleT = TypeVar("TupleT", bound=tuple[Any, ...])


def maker(kind: type[TupleT]) -> Callable[[Iterable[Any]], TupleT]:
    """`kind._make` without an interpreter frame. The argument holds all fields, in order."""
    return partial(tuple.__new__, kind)
