"""Allocates producer ids from blocks that are reserved in the metadata log.

The unused ids of a block are lost when the broker stops: there are 2^63 of them.
"""

import asyncio
from collections.abc import Sequence

from ottla.metadata.controller_interface import Controller
from ottla.metadata.image import Image
from ottla.metadata.records import ProducerIds, Record

BLOCK_IDS = 1000


class ProducerIdBlocks:
    """Use `take` first, and wait for `next` if it returns None."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._next_id = 0
        self._end_id = 0
        self._fetching = asyncio.Lock()

    def take(self) -> int | None:
        """A new producer id; None if the block is used up."""
        if self._next_id >= self._end_id:
            return None
        self._next_id += 1
        return self._next_id - 1

    async def next(self) -> int:
        """A new producer id. Concurrent callers share the next block.

        PeerError if no block can be reserved now.
        """
        async with self._fetching:
            while (producer_id := self.take()) is None:
                self._next_id = await self._controller.commit(_reserve_block)
                self._end_id = self._next_id + BLOCK_IDS
        return producer_id


def _reserve_block(image: Image) -> tuple[Sequence[Record], int]:
    """The record that reserves the next block, and its first id."""
    first_id = image.next_producer_id
    return [ProducerIds(first_id + BLOCK_IDS)], first_id
