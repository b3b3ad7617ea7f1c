"""The embedded store after a crash: acknowledged entries are kept, others are atomic."""

import itertools
from collections.abc import Callable

import pytest

from ottla.errors import CorruptLog, LogOffline, StorageError
from ottla.metadata.embedded.snapshot_file import FILE_NAME
from tests.sim.seams.faults import Operation
from tests.sim.seams.loop import run
from tests.support.metadata.store_kinds import SimMachine
from tests.support.metadata.store_restarts import (
    DIRECTORY,
    LOG,
    WriteHistory,
    after,
    rebuilt,
    restart,
    run_until,
    setting,
    write_all_kinds,
    write_some,
)

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("power", ["kept", "lost"])
def test_a_crash_at_any_moment_loses_nothing_that_was_acknowledged(seed: int, power: str) -> None:
    count = 0
    while True:
        machine, history = SimMachine(seed * 1000 + count), WriteHistory()
        if not run_until(machine, history, after(count)):
            break
        if power == "kept":
            machine.files.crash()
        else:
            machine.disk.power_loss()
        run(restart(machine, history))
        # Right after an acknowledgement: the entry must already be durable.
        machine.disk.power_loss()
        run(restart(machine, history))
        count += 1
    assert history.acknowledged == 5
    # Else there were too few crashes inside of operations.
    assert count > 100


@pytest.mark.parametrize("seed", range(10))
def test_unsynced_entries_of_a_killed_process_are_synced_before_they_are_shown(seed: int) -> None:
    machine, history = SimMachine(seed), WriteHistory()
    syncs = itertools.count()

    def is_third_sync(operation: Operation, path: str) -> bool:
        return operation == "sync" and path.endswith(".log") and next(syncs) == 2

    assert run_until(machine, history, is_third_sync)
    machine.files.crash()
    shown = run(machine.open().load())
    assert shown.next_offset == history.acknowledged + 1
    machine.disk.power_loss()
    assert run(machine.open().load()) == shown


@pytest.mark.parametrize("seed", range(10))
def test_entries_of_a_failed_sync_are_rewritten_before_they_are_shown(seed: int) -> None:
    async def steps() -> None:
        machine, history = SimMachine(seed), WriteHistory()
        store = machine.open()
        await history.append(store, (setting(0),))
        machine.disk.faults.fail_next_sync(LOG)
        with pytest.raises(LogOffline):
            await history.append(store, (setting(1),))
        machine.files.crash()
        shown = await machine.open().load()
        history.check(shown)
        machine.disk.power_loss()
        assert await machine.open().load() == shown

    run(steps())


def overlooked(
    files: dict[str, bytes],
    history: WriteHistory,
    path: str,
    change: Callable[[bytearray, int], None],
) -> list[int]:
    """Damages a file at each byte in turn; the positions where all entries were still read."""
    found = []
    for position in range(len(files[path])):
        content = bytearray(files[path])
        change(content, position)
        damaged = rebuilt({**files, path: bytes(content)})
        try:
            history.check(run(damaged.open().load()))
        except StorageError:
            continue
        found.append(position)
    return found


def flip(content: bytearray, position: int) -> None:
    content[position] ^= 1 << position % 8


def cut(content: bytearray, position: int) -> None:
    del content[position:]


def test_damaged_committed_entries_are_never_truncated() -> None:
    machine, history = SimMachine(), WriteHistory()
    run(write_some(machine, history))
    files = machine.disk.files()
    path = f"{DIRECTORY}/{0:020d}.log"
    batch_bytes = len(files[path]) // 3
    # The leader epochs of this log are not used.
    epochs = [batch * batch_bytes + byte for batch in range(3) for byte in range(12, 16)]
    assert overlooked(files, history, path, flip) == epochs
    assert overlooked(files, history, path, cut) == []


def test_a_damaged_snapshot_is_always_detected() -> None:
    machine, history = SimMachine(), WriteHistory()
    run(write_all_kinds(machine, history))
    files = machine.disk.files()
    path = f"{DIRECTORY}/{FILE_NAME}"
    assert overlooked(files, history, path, flip) == []
    assert overlooked(files, history, path, cut) == []


def test_a_lost_flushed_entry_is_a_corrupt_log() -> None:
    async def steps() -> None:
        machine, history = SimMachine(), WriteHistory()
        store = machine.open()
        for number in range(3):
            await history.append(store, (setting(number),))
        await store.close()
        files = machine.disk.files()
        log = next(path for path in files if path.endswith(".log"))
        machine = rebuilt({**files, log: b""})
        with pytest.raises(CorruptLog, match="offset 0 is missing"):
            machine.open()

    run(steps())


def test_the_same_run_leaves_the_same_files() -> None:
    one, other = SimMachine(), SimMachine()
    run(write_all_kinds(one, WriteHistory()))
    run(write_all_kinds(other, WriteHistory()))
    assert one.disk.trace_hash() == other.disk.trace_hash()
