"""Producer ids, each given once: blocks of them are set aside in the metadata log, durably.

What is left of a block when the broker ends is never given: there are 2^63 of them.
"""

import asyncio
from collections.abc import Sequence

from ottla.metadata.controller_interface import Controller
from ottla.metadata.image import Image
from ottla.metadata.records import ProducerIds, Record

BLOCK_IDS = 1000


class ProducerIdBlocks:
    """`take` one at once, or wait for the `next` one."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._next_id = 0
        self._end_id = 0
        self._fetching = asyncio.Lock()

    def take(self) -> int | None:
        """An id that nobody had; None while the block is used up."""
        if self._next_id >= self._end_id:
            return None
        self._next_id += 1
        return self._next_id - 1

    async def next(self) -> int:
        """An id that nobody had. Those who wait together share the next block.

        PeerError if no block can be set aside now.
        """
        async with self._fetching:
            while (producer_id := self.take()) is None:
                self._next_id = await self._controller.commit(_set_aside)
                self._end_id = self._next_id + BLOCK_IDS
        return producer_id


def _set_aside(image: Image) -> tuple[Sequence[Record], int]:
    """The next block: what is recorded, and its first id."""
    first_id = image.next_producer_id
    return [ProducerIds(first_id + BLOCK_IDS)], first_id
