"""Long answers in slices: other clients have their turn of the loop between them."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Of what takes some tenths of a millisecond each.
SLICE_ITEMS_MAX = 16


async def map_in_slices(
    make: Callable[[Item], Result], items: Iterable[Item]
) -> tuple[Result, ...]:
    """What `make` makes of each item, in their order. Each slice is a turn of the loop."""
    results: list[Result] = []
    for item in items:
        if results and len(results) % SLICE_ITEMS_MAX == 0:
            await asyncio.sleep(0)
        results.append(make(item))
    return tuple(results)
