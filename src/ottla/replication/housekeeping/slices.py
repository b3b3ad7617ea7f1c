"""Long loops over partitions, a slice at a time: other tasks run in between."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

from ottla.seams.clock import Clock

Item = TypeVar("Item")

SLICE_NS_MAX = 1_000_000


async def in_slices(items: Sequence[Item], clock: Clock) -> AsyncIterator[Item]:
    """Each of the items; yields to other tasks after each millisecond."""
    slice_ends_ns = clock.steady_ns() + SLICE_NS_MAX
    for item in items:
        yield item
        if clock.steady_ns() >= slice_ends_ns:
            await asyncio.sleep(0)
            slice_ends_ns = clock.steady_ns() + SLICE_NS_MAX
