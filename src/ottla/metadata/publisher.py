"""This broker's image, kept up to date from the store, and the one way to change it.

A decision is made on the newest image, committed by the store, and comes back like everybody
else's: only what is followed is applied. So a controller and every other broker share one path.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.metadata.image import Image
from ottla.metadata.records import ControllerStarted, Record
from ottla.metadata.store import Entry, Fence, MetadataStore

Reply = TypeVar("Reply")

# As many entries are replayed at a start, at the most, before a snapshot takes their place.
ENTRIES_A_SNAPSHOT = 1_000


class Publisher:
    """Owns the image. Whoever must know of a change is called after it was applied."""

    def __init__(self, store: MetadataStore) -> None:
        self.image = Image()
        self._store = store
        self._fence: Fence | None = None
        self._deciding = asyncio.Lock()
        self._applied = asyncio.Condition()
        self._subscribers: list[Callable[[Image, Entry], None]] = []
        self._entries_since_snapshot = 0

    def subscribe(self, subscriber: Callable[[Image, Entry], None]) -> None:
        self._subscribers.append(subscriber)

    async def load(self) -> None:
        """The image as it is committed now. Before `follow`."""
        loaded = await self._store.load()
        self.image = Image.of(loaded)
        self._entries_since_snapshot = len(loaded.entries)

    async def follow(self) -> None:
        """Applies what is committed, as it comes; does not end."""
        async for entry in self._store.follow(self.image.n + 1):
            self.image.replay(entry)
            for subscriber in self._subscribers:
                subscriber(self.image, entry)
            async with self._applied:
                self._applied.notify_all()
            self._entries_since_snapshot += 1
            if self._fence and self._entries_since_snapshot >= ENTRIES_A_SNAPSHOT:
                await self._store.save(self.image.snapshot(), self._fence)
                self._entries_since_snapshot = 0

    async def lead(self) -> None:
        """Waits until this broker is the controller; nothing of an older one can follow then."""
        self._fence = await self._store.campaign()
        epoch = self._fence.epoch
        await self.commit(lambda _: ([ControllerStarted(epoch)], None))

    async def commit(self, decide: Callable[[Image], tuple[Sequence[Record], Reply]]) -> Reply:
        """Decides on the newest image, commits, and replies once this broker has applied it."""
        if self._fence is None:
            raise RuntimeError("only the controller commits")
        async with self._deciding:
            records, reply = decide(self.image)
            if records:
                n = await self._store.append(records, self._fence)
                await self._until_applied(n)
        return reply

    async def _until_applied(self, n: int) -> None:
        async with self._applied:
            await self._applied.wait_for(lambda: self.image.n >= n)
