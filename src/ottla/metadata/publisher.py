"""This broker's image, kept up to date from the store, and changed by decisions while it leads.

A decision is made on the newest image, committed by the store, and comes back like everybody
else's: only what is followed is applied. So a controller and every other broker share one path.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.delta import difference
from ottla.metadata.image import Image
from ottla.metadata.records import ControllerStarted, Record
from ottla.metadata.store import EntriesGone, Entry, Fence, Fenced, MetadataStore

Reply = TypeVar("Reply")

# A snapshot takes the place of what would be replayed at a start once that is at least this much,
# entries and records counted together, and at least what the snapshot before it held: so that
# however large the image is, saving it costs little for each record.
REPLAYED_A_SNAPSHOT = 1_000
# So much more is replayed before a snapshot that failed is tried again.
REPLAYED_BEFORE_RETRY = 200


class NotController(PeerError):
    """This broker is not the controller, or is one no more; nothing was written."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")


class Publisher:
    """Owns the image. Whoever must know of a change is called after it was applied."""

    def __init__(
        self,
        store: MetadataStore,
        on_snapshot: Callable[[OSError | None], None] = lambda _error: None,
    ) -> None:
        """`on_snapshot` hears of each that was tried: why it failed, or None."""
        self.image = Image()
        self._store = store
        self._on_snapshot = on_snapshot
        # The right to commit; None while this broker does not lead.
        self._fence: Fence | None = None
        self._resigned = asyncio.Event()
        # Held from a decision until this broker has applied it: the next one is made on it.
        self._deciding = asyncio.Lock()
        self._commits: set[asyncio.Task[None]] = set()
        self._is_over = False
        self._applied = asyncio.Condition()
        self._subscribers: list[Callable[[Image, Entry], None]] = []
        # What a start would have to replay: behind the snapshot, and in it.
        self._replayed = 0
        self._snapshot_records = 0
        self._retry_at = 0

    def subscribe(self, subscriber: Callable[[Image, Entry], None]) -> None:
        self._subscribers.append(subscriber)

    async def load(self) -> None:
        """The image as it is committed now. Before `follow`."""
        loaded = await self._store.load()
        self.image = Image.of(loaded)
        self._snapshot_records = len(loaded.snapshot.records)
        self._replayed = sum(1 + len(entry.records) for entry in loaded.entries)

    async def follow(self) -> None:
        """Applies what is committed, as it comes; does not end."""
        try:
            while True:
                try:
                    await self._follow()
                except EntriesGone:
                    await self._jump()
        finally:
            # Nobody will apply what they wait for.
            self._is_over = True
            for commit in self._commits:
                commit.cancel()

    async def _follow(self) -> None:
        async for entry in self._store.follow(self.image.n + 1):
            self.image.replay(entry)
            self._resign_if_succeeded()
            await self._tell(entry)
            self._replayed += 1 + len(entry.records)
            await self._save_if_due()

    # Leading

    @property
    def is_controller(self) -> bool:
        """As far as this broker knows: only a commit finds out that another one has taken over."""
        return self._fence is not None

    async def lead(self, broker_id: int) -> None:
        """Waits until this broker is the controller; nothing of an older one can follow then.

        NotController if another one has taken over meanwhile.
        """
        fence = await self._store.campaign()
        await self._deciding.acquire()
        commit = None
        try:
            commit = self._begin([ControllerStarted(fence.epoch, broker_id)], fence)
        finally:
            if commit is None:
                self._deciding.release()
        await asyncio.shield(commit)
        # Only now: no decision is made on an image that lacks entries of an older controller.
        self._fence = fence
        self._resigned = asyncio.Event()
        self._resign_if_succeeded()

    async def until_resigned(self) -> None:
        """Waits until this broker leads no more."""
        while self._fence is not None:
            await self._resigned.wait()

    def _resign(self, fence: Fence) -> None:
        if self._fence == fence:
            self._fence = None
            self._resigned.set()

    def _resign_if_succeeded(self) -> None:
        if self._fence is not None and self.image.controller_epoch > self._fence.epoch:
            self._resign(self._fence)

    async def commit(self, decide: Callable[[Image], tuple[Sequence[Record], Reply]]) -> Reply:
        """Decides on the newest image, commits, and replies once this broker has applied it.

        RuleBroken or InvalidRecord, and nothing was written, if what was decided cannot follow:
        in the log it would stop every broker that reads it, now and at every later start. Whoever
        is cancelled leaves behind what was decided: the next decision still waits for it.
        NotController if this broker does not lead, and OSError if the disk takes nothing.
        """
        await self._deciding.acquire()
        commit = None
        try:
            # After the wait: the right to commit may be lost meanwhile.
            if self._fence is None:
                raise NotController
            records, reply = decide(self.image)
            if records:
                self.image.try_out(records)
                commit = self._begin(records, self._fence)
        finally:
            if commit is None:
                self._deciding.release()
        if commit is not None:
            await asyncio.shield(commit)
        return reply

    def _begin(self, records: Sequence[Record], fence: Fence) -> "asyncio.Task[None]":
        """A task that nobody's cancelling ends, but the end of `follow`."""
        if self._is_over:
            raise asyncio.CancelledError
        commit = asyncio.get_running_loop().create_task(
            self._commit(records, fence), name="commit metadata"
        )
        self._commits.add(commit)
        commit.add_done_callback(self._committed)
        return commit

    async def _commit(self, records: Sequence[Record], fence: Fence) -> None:
        try:
            n = await self._store.append(records, fence)
        except Fenced as error:
            self._resign(fence)
            raise NotController from error
        await self.until(lambda image: image.n >= n)

    def _committed(self, commit: "asyncio.Task[None]") -> None:
        self._commits.discard(commit)
        self._deciding.release()
        if not commit.cancelled():
            # Whoever waits is told.
            commit.exception()

    async def _jump(self) -> None:
        """The entries that come next are gone: goes on from the snapshot that replaced them."""
        before = self.image
        await self.load()
        self._resign_if_succeeded()
        await self._tell(Entry(self.image.n, tuple(difference(before, self.image))))

    async def _tell(self, entry: Entry) -> None:
        for subscriber in self._subscribers:
            subscriber(self.image, entry)
        async with self._applied:
            self._applied.notify_all()

    async def _save_if_due(self) -> None:
        due = max(REPLAYED_A_SNAPSHOT, self._snapshot_records, self._retry_at)
        fence = self._fence
        if fence is not None and self._replayed >= due:
            snapshot = self.image.snapshot()
            try:
                await self._store.save(snapshot, fence)
            except Fenced:
                # The next controller saves one.
                self._resign(fence)
                return
            except OSError as error:
                # The entries are the truth, and all of them are still there: a start takes longer.
                self._retry_at = self._replayed + REPLAYED_BEFORE_RETRY
                self._on_snapshot(error)
                return
            self._snapshot_records, self._replayed, self._retry_at = len(snapshot.records), 0, 0
            self._on_snapshot(None)

    async def until(self, condition: Callable[[Image], bool]) -> None:
        """Waits until the image is so."""
        async with self._applied:
            await self._applied.wait_for(lambda: condition(self.image))
