"""Builds long responses in slices, so that other clients have their turn of the event loop."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# For items that take some tenths of a millisecond each.
SLICE_ITEMS_MAX = 16


async def map_in_slices(
    make: Callable[[Item], Result], items: Iterable[Item]
) -> tuple[Result, ...]:
    """Maps the items in their order, with one turn of the event loop per slice."""
    results: list[Result] = []
    for item in items:
        if results and len(results) % SLICE_ITEMS_MAX == 0:
            await asyncio.sleep(0)
        results.append(make(item))
    return tuple(results)
