"""Allocates producer ids from blocks that are reserved in the metadata log.

A coordinator decides without waiting, and may need an id for its decision: `spare` is awaited
before, so that `require` finds one. Where nobody can wait, as at a timeout, a `require` that finds
none has the next block reserved, and is repeated later.

The unused ids of a block are lost when the broker stops: there are 2^63 of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.producer_id_blocks import ProducerIdBlock

# Reserves the next block, here or on the controller. PeerError.
Reserve = Callable[[], Awaitable[ProducerIdBlock]]
Spawn = Callable[[Coroutine[Any, Any, Any], str], object]


class ProducerIdBlocks:
    """Use `take` first, and wait for `next` if it returns None.

    `spawn` starts a task in the background.
    """

    def __init__(self, reserve: Reserve, spawn: Spawn) -> None:
        self._reserve_block = reserve
        self._spawn = spawn
        self._next_id = 0
        self._end_id = 0
        self._fetching = asyncio.Lock()

    def take(self) -> int | None:
        """A new producer id; None if the block is used up."""
        if self._next_id >= self._end_id:
            return None
        self._next_id += 1
        return self._next_id - 1

    def require(self) -> int:
        """A new producer id. PeerError, after which clients retry, if the block is used up."""
        producer_id = self.take()
        if producer_id is None:
            if not self._fetching.locked():
                self._spawn(self._spare_if_possible(), "producer ids")
            raise PeerError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "the next producer ids are not reserved yet"
            )
        return producer_id

    @property
    def is_used_up(self) -> bool:
        return self._next_id >= self._end_id

    async def spare(self) -> None:
        """Reserves the next block if this one is used up. PeerError as `next`."""
        async with self._fetching:
            if self.is_used_up:
                await self._reserve()

    async def _spare_if_possible(self) -> None:
        # Whoever needs an id asks again.
        with suppress(PeerError):
            await self.spare()

    async def next(self) -> int:
        """A new producer id. Concurrent callers share the next block.

        PeerError if no block can be reserved now.
        """
        async with self._fetching:
            while (producer_id := self.take()) is None:
                await self._reserve()
        return producer_id

    async def _reserve(self) -> None:
        block = await self._reserve_block()
        self._next_id = block.first_id
        self._end_id = block.first_id + block.size
