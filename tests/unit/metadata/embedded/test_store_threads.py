"""The embedded store's threads wait for the disk and keep the order of the calls."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import pytest

from ottla.errors import LogOffline
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.image import Image
from ottla.metadata.store import Entry, Fenced, StoreClosed
from tests.sim.seams.faults import Operation
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import registration
from tests.support.metadata.store_kinds import DATA, SimMachine, ThreadedMachine
from tests.support.metadata.store_restarts import LOG, setting

Result = TypeVar("Result")


class SlowThread:
    """A thread whose work the test starts, and that signals when it has work."""

    def __init__(self) -> None:
        self.may_run = asyncio.Event()
        self.may_run.set()
        self.is_at_work = False
        self.asked = 0

    async def run(self, work: Callable[[], Result]) -> Result:
        """As in a thread, the work continues if its caller is cancelled."""
        self.asked += 1
        running = asyncio.create_task(self._run(work))
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(running)

    async def _run(self, work: Callable[[], Result]) -> Result:
        await self.may_run.wait()
        self.is_at_work = True
        try:
            return work()
        finally:
            self.is_at_work = False

    def close(self) -> None:
        """Nothing runs."""


def opened(machine: SimMachine, thread: SlowThread) -> EmbeddedStore:
    return EmbeddedStore.open(machine.disk.process(), DATA, machine.clock, thread)


def test_no_sync_of_a_commit_or_of_a_snapshots_content_is_on_the_loop() -> None:
    async def steps() -> None:
        machine, thread = SimMachine(), SlowThread()
        store = opened(machine, thread)
        fence = await store.campaign()
        # The first entry also writes the file of leader epochs.
        await store.append((setting(0),), fence)
        synced: list[tuple[str, bool]] = []
        harmless = machine.disk.faults.error_for

        def error_for(operation: Operation, path: str) -> int:
            if operation in ("sync", "sync_dir"):
                synced.append((path, thread.is_at_work))
            return harmless(operation, path)

        machine.disk.faults.error_for = error_for  # type: ignore[method-assign]
        await store.register(registration())
        for number in range(3):
            await store.append((setting(number),), fence)
        # One per entry, and for its recovery point that of the file and of its directory.
        assert len(synced) >= 4 * 3
        assert all(at_work for _, at_work in synced)
        await store.save(Image.of(await store.load()).snapshot(), fence)
        assert [at_work for path, at_work in synced if "snapshot.json" in path] == [True]

    run(steps())


def test_overlapping_appends_are_written_one_after_another_in_the_order_of_the_calls() -> None:
    async def steps() -> None:
        machine = ThreadedMachine(seed=3)
        store = machine.open()
        fence = await store.campaign()
        writes: list[str] = []
        harmless = machine.disk.faults.error_for

        def error_for(operation: Operation, path: str) -> int:
            if path.endswith(".log") and operation in ("write", "sync"):
                writes.append(operation)
            return harmless(operation, path)

        machine.disk.faults.error_for = error_for  # type: ignore[method-assign]
        numbers = await asyncio.gather(
            *(store.append((setting(number),), fence) for number in range(20))
        )
        assert numbers == sorted(numbers)
        assert writes == ["write", "sync"] * 20
        loaded = await store.load()
        assert [entry.records for entry in loaded.entries] == [
            (setting(number),) for number in range(20)
        ]

    run(steps())


def test_an_entry_is_not_shown_before_it_is_synced() -> None:
    async def steps() -> None:
        machine, thread = SimMachine(), SlowThread()
        store = opened(machine, thread)
        fence = await store.campaign()
        shown: list[Entry] = []

        async def follow() -> None:
            async for entry in store.follow(0):
                shown.append(entry)

        following = asyncio.create_task(follow())
        thread.may_run.clear()
        appending = asyncio.create_task(store.append((setting(0),), fence))
        await asyncio.sleep(1)
        assert thread.asked == 1
        assert shown == []
        assert (await store.load()).entries == ()
        thread.may_run.set()
        assert await appending == 0
        await asyncio.sleep(1)
        assert [entry.offset for entry in shown] == [0]
        following.cancel()

    run(steps())


def test_a_cancelled_caller_does_not_stop_its_commit() -> None:
    async def steps() -> None:
        machine, thread = SimMachine(), SlowThread()
        store = opened(machine, thread)
        fence = await store.campaign()
        thread.may_run.clear()
        appending = asyncio.create_task(store.append((setting(0),), fence))
        await asyncio.sleep(1)
        appending.cancel()
        with suppress(asyncio.CancelledError):
            await appending
        following = asyncio.create_task(store.append((setting(1),), fence))
        await asyncio.sleep(1)
        thread.may_run.set()
        assert await following == 1
        assert [entry.offset for entry in (await store.load()).entries] == [0, 1]

    run(steps())


def test_a_sync_that_fails_after_its_caller_was_cancelled_still_ends_the_store() -> None:
    """Else the next sync would succeed without writing the entry."""

    async def steps() -> None:
        machine, thread = SimMachine(), SlowThread()
        store = opened(machine, thread)
        fence = await store.campaign()
        thread.may_run.clear()
        appending = asyncio.create_task(store.append((setting(0),), fence))
        await asyncio.sleep(1)
        appending.cancel()
        machine.disk.faults.fail_next_sync(LOG)
        thread.may_run.set()
        await asyncio.sleep(1)
        with pytest.raises(LogOffline):
            await store.append((setting(1),), fence)
        await store.close()

    run(steps())


def test_closing_waits_for_the_current_commit_and_starts_no_other() -> None:
    async def steps() -> None:
        machine, thread = SimMachine(), SlowThread()
        store = opened(machine, thread)
        fence = await store.campaign()
        thread.may_run.clear()
        first = asyncio.create_task(store.append((setting(0),), fence))
        second = asyncio.create_task(store.append((setting(1),), fence))
        await asyncio.sleep(1)
        closing = asyncio.create_task(store.close())
        await asyncio.sleep(1)
        assert not closing.done()
        thread.may_run.set()
        assert await first == 0
        with pytest.raises(StoreClosed):
            await second
        await closing
        loaded = await machine.open().load()
        assert [entry.records for entry in loaded.entries] == [(setting(0),)]

    run(steps())


def test_a_controller_that_is_fenced_while_it_waits_writes_nothing() -> None:
    async def steps() -> None:
        machine, thread = SimMachine(), SlowThread()
        store = opened(machine, thread)
        old = await store.campaign()
        await store.append((setting(0),), old)
        thread.may_run.clear()
        # It waits for the recovery point of the previous entry.
        appending = asyncio.create_task(store.append((setting(1),), old))
        await asyncio.sleep(1)
        new = await store.campaign()
        thread.may_run.set()
        with pytest.raises(Fenced):
            await appending
        assert await store.append((setting(2),), new) == 1

    run(steps())


@pytest.mark.parametrize("seed", range(20))
def test_appends_and_snapshots_at_the_same_time_lose_nothing(seed: int) -> None:
    async def steps() -> None:
        machine = ThreadedMachine(seed)
        store = machine.open()
        fence = await store.campaign()

        async def save() -> None:
            for _ in range(3):
                await store.save(Image.of(await store.load()).snapshot(), fence)
                await asyncio.sleep(0.01)

        await store.append((setting(0),), fence)
        saving = asyncio.create_task(save())
        appending = [
            asyncio.create_task(store.append((setting(number),), fence)) for number in range(1, 20)
        ]
        await saving
        await asyncio.gather(*appending)
        machine.crash()
        image = Image.of(await machine.open().load())
        (key,) = image.configured
        assert len(image.configs(*key)) == 20

    run(steps())
