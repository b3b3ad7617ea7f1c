"""This broker's image: follows the store, commits decisions, and decides when to save a snapshot.

A decision is made on the newest image and committed by the store. Its entry is then followed and
applied like any other. So the controller and every other broker share one path.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.decision_queue import DecisionQueue
from ottla.metadata.delta import image_delta
from ottla.metadata.image import Image
from ottla.metadata.records import ControllerStarted, Record
from ottla.metadata.store import EntriesGone, Entry, Fence, Fenced, MetadataStore

Reply = TypeVar("Reply")

# A new snapshot is saved when a start would have to replay at least this many entries and records,
# and at least as many as the previous snapshot has records. So the cost of snapshots per record
# stays small, however large the image is.
MIN_REPLAYED_PER_SNAPSHOT = 1_000
# A failed snapshot is retried after this many more entries and records.
REPLAYED_BEFORE_RETRY = 200
# Other tasks run between the steps of a larger entry.
RECORDS_PER_STEP_MAX = 50


class NotController(PeerError):
    """This broker is not, or no longer, the controller; nothing was written."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")


class CommitMeter(Protocol):
    """Measures the commits of this broker while it is the controller, which never overlap."""

    def begin(self, image: Image, records: Sequence[Record]) -> None:
        """These records are about to be committed after the entries of this image."""
        ...

    def end(self) -> None:
        """They were committed, and this broker has applied them."""
        ...


class Publisher:
    """Owns the image. Subscribers are called after each applied entry."""

    def __init__(
        self,
        store: MetadataStore,
        on_snapshot: Callable[[OSError | None], None] = lambda _error: None,
        commit_meter: CommitMeter | None = None,
    ) -> None:
        """`on_snapshot` is called after each attempt to save a snapshot, with its error or None."""
        self.image = Image()
        self._store = store
        self._on_snapshot = on_snapshot
        self._commit_meter = commit_meter
        # The right to commit; None while this broker is not the controller.
        self._fence: Fence | None = None
        self._resigned = asyncio.Event()
        # Held from a decision until it is applied: the next decision is made on its result.
        self._deciding = asyncio.Lock()
        self._decisions = DecisionQueue()
        # Commits the waiting decisions; None if there are none.
        self._committer: asyncio.Task[None] | None = None
        self._is_over = False
        self._applied = asyncio.Condition()
        self._subscribers: list[Callable[[Image, Entry], None]] = []
        # The entries and records that a start would replay: after the snapshot, and in it.
        self._replayed = 0
        self._snapshot_records = 0
        self._retry_at = 0

    def subscribe(self, subscriber: Callable[[Image, Entry], None]) -> None:
        self._subscribers.append(subscriber)

    async def load(self) -> None:
        """Loads the image of all committed entries. To be called before `follow`."""
        loaded = await self._store.load()
        self.image = Image.of(loaded)
        self._snapshot_records = len(loaded.snapshot.records)
        self._replayed = sum(1 + len(entry.records) for entry in loaded.entries)

    async def follow(self) -> None:
        """Applies entries as they are committed; does not end."""
        try:
            while True:
                try:
                    await self._follow()
                except EntriesGone:
                    await self._jump()
        finally:
            # Their entries will not be applied any more.
            self._is_over = True
            self._decisions.cancel_all()
            if self._committer is not None:
                self._committer.cancel()

    async def _follow(self) -> None:
        async for entry in self._store.follow(self.image.offset + 1):
            await _yield_if_large(entry.records)
            self.image.replay(entry)
            self._resign_if_succeeded()
            await self._publish(entry)
            self._replayed += 1 + len(entry.records)
            await self._save_if_due()
            await _yield_if_large(entry.records)

    # Leading

    @property
    def is_controller(self) -> bool:
        """As far as this broker knows: only a commit shows that another one has taken over."""
        return self._fence is not None

    async def lead(self, broker_id: int) -> None:
        """Waits until this broker is the controller, and commits ControllerStarted.

        NotController if another broker has taken over meanwhile.
        """
        fence = await self._store.campaign()
        async with self._deciding:
            await self._append([ControllerStarted(fence.epoch, broker_id)], fence)
        # Only now: decisions need an image with all entries of earlier controllers.
        self._fence = fence
        self._resigned = asyncio.Event()
        self._resign_if_succeeded()

    async def until_resigned(self) -> None:
        """Waits until this broker is no longer the controller."""
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

        Decisions that wait for each other share an entry: all of its records are committed, or
        none. RuleBroken or InvalidRecord, and nothing is written, if the image could not apply the
        records. A cancelled caller does not stop a commit that has begun. NotController if this
        broker is not the controller, OSError if the disk cannot be written.
        """
        if self._is_over:
            raise asyncio.CancelledError
        outcome = self._decisions.add(decide)
        if self._committer is None:
            self._committer = asyncio.get_running_loop().create_task(
                self._commit_all(), name="commit metadata"
            )
        reply: Reply = await outcome
        return reply

    async def _commit_all(self) -> None:
        """Commits one entry after another until no decision waits."""
        try:
            while self._decisions:
                async with self._deciding:
                    await self._commit_next()
        except Exception as error:  # noqa: BLE001 - a bug, which the callers raise
            self._decisions.refuse_all(error)
        finally:
            self._committer = None

    async def _commit_next(self) -> None:
        # Checked after the wait: the fence may have been lost meanwhile.
        fence = self._fence
        if fence is None:
            self._decisions.refuse_all(NotController())
            return
        entry = self._decisions.next_entry(self.image)
        try:
            if entry.records:
                await _yield_if_large(entry.records)
                if self._commit_meter is not None:
                    self._commit_meter.begin(self.image, entry.records)
                await self._append(entry.records, fence)
                if self._commit_meter is not None:
                    self._commit_meter.end()
        except Exception as error:  # noqa: BLE001 - the callers raise it
            entry.fail(error)
        else:
            entry.answer()
        finally:
            # Cancelled, because `follow` has ended.
            entry.cancel()

    async def _append(self, records: Sequence[Record], fence: Fence) -> None:
        """Commits an entry. This broker has applied it on return."""
        try:
            offset = await self._store.append(records, fence)
        except Fenced as error:
            self._resign(fence)
            raise NotController from error
        await self.until(lambda image: image.offset >= offset)

    async def _jump(self) -> None:
        """A snapshot has replaced the next entries: continues from the snapshot."""
        before = self.image
        await self.load()
        self._resign_if_succeeded()
        await self._publish(Entry(self.image.offset, tuple(image_delta(before, self.image))))

    async def _publish(self, entry: Entry) -> None:
        for subscriber in self._subscribers:
            subscriber(self.image, entry)
        async with self._applied:
            self._applied.notify_all()

    async def _save_if_due(self) -> None:
        due = max(MIN_REPLAYED_PER_SNAPSHOT, self._snapshot_records, self._retry_at)
        fence = self._fence
        if fence is not None and self._replayed >= due:
            snapshot = self.image.snapshot()
            try:
                await self._store.save(snapshot, fence)
            except Fenced:
                # The next controller saves a snapshot.
                self._resign(fence)
                return
            except OSError as error:
                # No entry is lost: only the next start takes longer.
                self._retry_at = self._replayed + REPLAYED_BEFORE_RETRY
                self._on_snapshot(error)
                return
            self._snapshot_records, self._replayed, self._retry_at = len(snapshot.records), 0, 0
            self._on_snapshot(None)

    async def until(self, condition: Callable[[Image], bool]) -> None:
        """Waits until the image fulfils the condition."""
        async with self._applied:
            await self._applied.wait_for(lambda: condition(self.image))


async def _yield_if_large(records: Sequence[Record]) -> None:
    """Lets other tasks run between the steps of a large entry: each takes several milliseconds."""
    if len(records) > RECORDS_PER_STEP_MAX:
        await asyncio.sleep(0)
