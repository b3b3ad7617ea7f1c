"""The embedded store after a crash: what was acknowledged is there, the rest wholly or not."""

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
    Life,
    after,
    live,
    live_briefly,
    next_life,
    play_until,
    rebuilt,
    setting,
)

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("power", ["kept", "lost"])
def test_a_crash_at_any_moment_loses_nothing_that_was_acknowledged(seed: int, power: str) -> None:
    count = 0
    while True:
        machine, life = SimMachine(seed * 1000 + count), Life()
        if not play_until(machine, life, after(count)):
            break
        if power == "kept":
            machine.files.crash()
        else:
            machine.disk.power_loss()
        run(next_life(machine, life))
        # Right after an acknowledgement: nothing more may be needed to keep it.
        machine.disk.power_loss()
        run(next_life(machine, life))
        count += 1
    assert life.acknowledged == 5
    # Else the machine was never in the middle of much.
    assert count > 100


@pytest.mark.parametrize("seed", range(10))
def test_what_a_killed_process_had_not_synced_is_synced_before_it_is_shown(seed: int) -> None:
    machine, life = SimMachine(seed), Life()
    syncs = itertools.count()

    def is_third_sync(operation: Operation, path: str) -> bool:
        return operation == "sync" and path.endswith(".log") and next(syncs) == 2

    assert play_until(machine, life, is_third_sync)
    machine.files.crash()
    shown = run(machine.open().load())
    assert shown.next_n == life.acknowledged + 1
    machine.disk.power_loss()
    assert run(machine.open().load()) == shown


@pytest.mark.parametrize("seed", range(10))
def test_what_a_failed_sync_left_behind_is_written_again_before_it_is_shown(seed: int) -> None:
    async def steps() -> None:
        machine, life = SimMachine(seed), Life()
        store = machine.open()
        await life.append(store, (setting(0),))
        machine.disk.faults.fail_next_sync(LOG)
        with pytest.raises(LogOffline):
            await life.append(store, (setting(1),))
        machine.files.crash()
        shown = await machine.open().load()
        life.check(shown)
        machine.disk.power_loss()
        assert await machine.open().load() == shown

    run(steps())


def overlooked(
    files: dict[str, bytes], life: Life, path: str, change: Callable[[bytearray, int], None]
) -> list[int]:
    """Damages a file at each byte in turn; where it was not noticed, and all was there."""
    found = []
    for position in range(len(files[path])):
        content = bytearray(files[path])
        change(content, position)
        damaged = rebuilt({**files, path: bytes(content)})
        try:
            life.check(run(damaged.open().load()))
        except StorageError:
            continue
        found.append(position)
    return found


def flip(content: bytearray, position: int) -> None:
    content[position] ^= 1 << position % 8


def cut(content: bytearray, position: int) -> None:
    del content[position:]


def test_damage_to_what_was_committed_is_never_cut_away() -> None:
    machine, life = SimMachine(), Life()
    run(live_briefly(machine, life))
    files = machine.disk.files()
    path = f"{DIRECTORY}/{0:020d}.log"
    batch_bytes = len(files[path]) // 3
    # Nobody asks a batch of this log for its leader epoch.
    epochs = [batch * batch_bytes + byte for batch in range(3) for byte in range(12, 16)]
    assert overlooked(files, life, path, flip) == epochs
    assert overlooked(files, life, path, cut) == []


def test_damage_to_a_snapshot_is_never_overlooked() -> None:
    machine, life = SimMachine(), Life()
    run(live(machine, life))
    files = machine.disk.files()
    path = f"{DIRECTORY}/{FILE_NAME}"
    assert overlooked(files, life, path, flip) == []
    assert overlooked(files, life, path, cut) == []


def test_a_store_that_lost_a_flushed_entry_says_so() -> None:
    async def steps() -> None:
        machine, life = SimMachine(), Life()
        store = machine.open()
        for number in range(3):
            await life.append(store, (setting(number),))
        await store.close()
        files = machine.disk.files()
        log = next(path for path in files if path.endswith(".log"))
        machine = rebuilt({**files, log: b""})
        with pytest.raises(CorruptLog, match="offset 0 is missing"):
            machine.open()

    run(steps())


def test_the_same_life_leaves_the_same_trace() -> None:
    one, other = SimMachine(), SimMachine()
    run(live(one, Life()))
    run(live(other, Life()))
    assert one.disk.trace_hash() == other.disk.trace_hash()
