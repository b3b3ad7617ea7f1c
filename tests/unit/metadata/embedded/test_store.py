"""The embedded store on a failing or full disk, and its files."""

import asyncio
import errno
import gc
import os
from pathlib import Path

import pytest

from ottla.errors import LogOffline, StorageError
from ottla.metadata.embedded import entry_log
from ottla.metadata.embedded.entry_log import READ_BYTES_MAX
from ottla.metadata.embedded.snapshot_file import FILE_NAME
from ottla.metadata.embedded.store import StoreInUse
from ottla.metadata.image import Image
from ottla.metadata.records import ControllerStarted
from ottla.metadata.snapshot_packing import PACKED_PER_SLICE
from ottla.metadata.store import Entry, StoreClosed
from ottla.storage.log.config import LogConfig
from tests.sim.seams.faults import Operation
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import ONE_OF_EACH, registration
from tests.support.metadata.store_kinds import RealDirectory, SimMachine
from tests.support.metadata.store_restarts import DIRECTORY, LOG, WriteHistory, setting


def test_a_closed_store_holds_no_file_open(tmp_path: Path) -> None:
    async def steps() -> None:
        store = RealDirectory(tmp_path).open()
        fence = await store.campaign()
        await store.append(ONE_OF_EACH[:4], fence)
        await store.save(Image.of(await store.load()).snapshot(), fence)
        await store.close()

    run(steps())
    gc.collect()
    descriptors = os.listdir("/proc/self/fd")
    open_paths = [os.path.realpath(f"/proc/self/fd/{descriptor}") for descriptor in descriptors]
    assert not [path for path in open_paths if path.startswith(str(tmp_path))]


def test_a_data_directory_has_one_broker_at_a_time() -> None:
    async def steps() -> None:
        machine = SimMachine()
        first = machine.open()
        with pytest.raises(StoreInUse, match=r"/__ottla_metadata-0/.lock is held"):
            machine.open()
        await first.close()
        assert (await machine.open().load()).entries == ()

    run(steps())


def test_a_failed_opening_releases_the_lock() -> None:
    machine = SimMachine()
    machine.disk.faults.fail_next("list", DIRECTORY)
    with pytest.raises(OSError, match="error"):
        machine.open()
    assert run(machine.open().load()).entries == ()


def test_a_failed_sync_is_not_acknowledged_and_ends_the_store() -> None:
    async def steps() -> None:
        machine, history = SimMachine(), WriteHistory()
        store = machine.open()
        await history.append(store, (setting(0),))
        machine.disk.faults.fail_next_sync(LOG)
        with pytest.raises(LogOffline):
            await history.append(store, (setting(1),))
        with pytest.raises(LogOffline):
            await store.append((setting(2),), await store.campaign())
        with pytest.raises(LogOffline):
            await store.load()
        with pytest.raises(LogOffline):
            await anext(store.follow(1))
        await store.close()
        machine.disk.power_loss()
        history.check(await machine.open().load())

    run(steps())


@pytest.mark.parametrize("operation", ["write", "sync", "create", "rename", "sync_dir"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_append_is_atomic(operation: Operation, code: int) -> None:
    async def steps(spared: int) -> bool:
        machine, history = SimMachine(spared), WriteHistory()
        store = machine.open()
        await history.append(store, (setting(0),))
        machine.disk.faults.fail_next(operation, error=code, after=spared)
        try:
            await history.append(store, (setting(1),))
        except (OSError, StorageError):
            has_failed = True
        else:
            has_failed = False
        machine.disk.faults.clear()
        machine.disk.power_loss()
        history.check(await machine.open().load())
        return has_failed

    failures = [run(steps(spared)) for spared in range(4)]
    assert failures[0]
    assert not failures[-1]


def test_a_full_disk_refuses_an_entry_and_takes_the_next_when_there_is_space() -> None:
    async def steps() -> None:
        machine, history = SimMachine(), WriteHistory()
        store = machine.open()
        await history.append(store, (setting(0),))
        for spared in range(2):
            machine.disk.faults.fail_next_write(after=spared)
            with pytest.raises(OSError, match="space"):
                await history.append(store, (setting(1),))
            history.attempted.pop()
            history.check(await store.load())
        await history.append(store, (setting(2),))
        await store.close()
        history.check(await machine.open().load())

    run(steps())


def test_a_full_disk_refuses_a_snapshot_and_keeps_the_last() -> None:
    async def steps() -> None:
        machine, history = SimMachine(), WriteHistory()
        store = machine.open()
        for number in range(3):
            await history.append(store, (setting(number),))
        await history.save(store, 1)
        machine.disk.faults.fail_next_write(f"{DIRECTORY}/{FILE_NAME}*")
        with pytest.raises(OSError, match="space"):
            await history.save(store, 2)
        assert (await store.load()).snapshot.offset == 1
        await history.append(store, (setting(3),))
        machine.disk.power_loss()
        loaded = await machine.open().load()
        assert loaded.snapshot.offset == 1
        history.check(loaded)

    run(steps())


def test_a_long_log_is_read_in_pieces() -> None:
    async def steps() -> None:
        machine, history = SimMachine(), WriteHistory()
        store = machine.open()
        size = 30_000
        for number in range(3 * READ_BYTES_MAX // (10 * size)):
            await history.append(store, tuple(setting(number * 10 + k, size) for k in range(10)))
        history.check(await store.load())
        follower = store.follow(0)
        for n, records in enumerate(history.attempted):
            assert await anext(follower) == Entry(n, records)
        await store.close()
        history.check(await machine.open().load())

    run(steps())


def test_a_snapshot_frees_the_space_of_what_it_replaced() -> None:
    async def steps() -> None:
        machine, history = SimMachine(), WriteHistory()
        store = machine.open()
        for _ in range(50):
            await history.append(store, (setting(0, 10_000),))
        before = machine.disk.files()
        await history.save(store, 49)
        after = machine.disk.files()
        assert sum(map(len, after.values())) < sum(map(len, before.values())) / 10
        assert not [path for path in after if path.endswith(".deleted")]
        await history.append(store, (setting(1),))
        history.check(await store.load())

    run(steps())


def test_other_tasks_run_while_a_large_snapshot_is_packed() -> None:
    async def steps() -> None:
        machine, history = SimMachine(), WriteHistory()
        store = machine.open()
        count = 5 * PACKED_PER_SLICE
        for number in range(count):
            await history.append(store, (setting(number),))
        snapshot, fence = history.image(count).snapshot(), await store.campaign()
        saving = asyncio.create_task(store.save(snapshot, fence))
        turns = 0
        while not saving.done():
            await asyncio.sleep(0)
            turns += 1
            if turns == 2:
                appending = asyncio.create_task(store.append((setting(count),), fence))
        await saving
        await appending
        assert turns >= 5
        await store.close()
        loaded = await machine.open().load()
        assert loaded.snapshot == snapshot
        assert loaded.entries == (Entry(count, (setting(count),)),)

    run(steps())


def test_a_store_that_is_closed_while_a_snapshot_is_packed_writes_none() -> None:
    async def steps() -> None:
        machine, history = SimMachine(), WriteHistory()
        store = machine.open()
        for number in range(2 * PACKED_PER_SLICE):
            await history.append(store, (setting(number),))
        saving = asyncio.create_task(history.save(store, 2 * PACKED_PER_SLICE - 1))
        await asyncio.sleep(0)
        await store.close()
        with pytest.raises(StoreClosed):
            await saving
        loaded = await machine.open().load()
        assert loaded.snapshot.offset == -1
        history.check(loaded)

    run(steps())


def test_a_registration_is_an_entry_whose_offset_is_the_epoch() -> None:
    async def steps() -> None:
        store = SimMachine().open()
        await store.append((setting(0),), await store.campaign())
        epoch = await store.register(registration())
        loaded = await store.load()
        assert loaded.entries[-1] == Entry(epoch, ())

    run(steps())


def test_a_campaigns_epoch_is_above_those_in_the_log() -> None:
    async def steps() -> None:
        machine = SimMachine()
        store = machine.open()
        fence = await store.campaign()
        await store.append((ControllerStarted(41),), fence)
        assert (await store.campaign()).epoch == 42
        await store.close()
        assert (await machine.open().campaign()).epoch == 42

    run(steps())


def test_a_disk_that_fills_between_an_entry_and_its_commit_ends_the_store(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(entry_log, "_CONFIG", LogConfig(index_interval_bytes=1))

    async def steps() -> None:
        machine, history = SimMachine(), WriteHistory()
        store = machine.open()
        await history.append(store, (setting(0),))
        machine.disk.faults.fail_next_write("*.index")
        with pytest.raises(LogOffline):
            await history.append(store, (setting(1),))
        with pytest.raises(LogOffline):
            await store.append((setting(2),), await store.campaign())
        machine.disk.power_loss()
        history.check(await machine.open().load())

    run(steps())
