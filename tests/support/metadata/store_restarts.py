"""Runs of an embedded store on a simulated disk, and the checks of what each leaves behind."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.metadata.embedded.entry_log import PARTITION
from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.image import Image
from ottla.metadata.records import Config, Record
from ottla.metadata.store import Entry, Loaded, Snapshot
from ottla.metadata.values import ResourceKind
from tests.sim.seams.faults import Operation
from tests.sim.seams.loop import run
from tests.support.metadata.sample_records import ONE_OF_EACH
from tests.support.metadata.store_kinds import DATA, SimMachine

DIRECTORY = f"{DATA}/{PARTITION}"
LOG = f"{DIRECTORY}/*.log"


class Killed(BaseException):
    """The process ends here: not an Exception, so that no code catches it."""


@dataclass
class WriteHistory:
    """The acknowledged and attempted writes of one process."""

    attempted: list[tuple[Record, ...]] = field(default_factory=list)
    acknowledged: int = 0
    snapshot_begun: int = -1
    snapshot_done: int = -1

    async def append(self, store: EmbeddedStore, records: tuple[Record, ...]) -> None:
        fence = await store.campaign()
        self.attempted.append(records)
        n = await store.append(records, fence)
        assert n == self.acknowledged
        self.acknowledged += 1

    async def save(self, store: EmbeddedStore, n: int) -> None:
        self.snapshot_begun = n
        await store.save(self.image(n + 1).snapshot(), await store.campaign())
        self.snapshot_done = n

    def image(self, count: int) -> Image:
        """The image of the first `count` attempted entries."""
        entries = tuple(Entry(n, records) for n, records in enumerate(self.attempted[:count]))
        return Image.of(Loaded(Snapshot(-1, ()), entries))

    def check(self, loaded: Loaded) -> None:
        """Checks that acknowledged writes exist, and that the last one is atomic."""
        found = loaded.next_offset
        assert found in (self.acknowledged, len(self.attempted))
        assert loaded.snapshot.offset in (self.snapshot_done, self.snapshot_begun)
        for entry in loaded.entries:
            assert entry.records == self.attempted[entry.offset]
        assert Image.of(loaded) == self.image(found)


def setting(number: int, size: int = 3) -> Config:
    return Config(ResourceKind.BROKER, "", f"key-{number}", "x" * size)


async def write_all_kinds(machine: SimMachine, history: WriteHistory) -> None:
    """All kinds of writes: entries, snapshots with and without entries after them, a close."""
    store = machine.open()
    await history.append(store, ONE_OF_EACH[:4])
    await history.append(store, (setting(0),))
    await history.save(store, 1)
    await history.append(store, (setting(1, 600), setting(2, 600)))
    await history.append(store, ())
    await history.save(store, 2)
    await history.append(store, (setting(3),))
    await store.close()


def run_until(
    machine: SimMachine, history: WriteHistory, is_end: Callable[[Operation, str], bool]
) -> bool:
    """Runs it until just before an operation of the disk; False if that never came."""
    harmless = machine.disk.faults.error_for

    def error_for(operation: Operation, path: str) -> int:
        if is_end(operation, path):
            raise Killed
        return harmless(operation, path)

    machine.disk.faults.error_for = error_for  # type: ignore[method-assign]
    try:
        run(write_all_kinds(machine, history))
    except Killed:
        return True
    finally:
        machine.disk.faults.error_for = harmless  # type: ignore[method-assign]
    return False


def after(count: int) -> Callable[[Operation, str], bool]:
    """True once `count` operations have passed."""
    operations = itertools.count()
    return lambda operation, path: next(operations) == count


async def restart(machine: SimMachine, history: WriteHistory) -> None:
    """Opens the store again, checks its contents, and appends to it."""
    store = machine.open()
    loaded = await store.load()
    history.check(loaded)
    del history.attempted[loaded.next_offset :]
    history.acknowledged = loaded.next_offset
    history.snapshot_done = history.snapshot_begun = loaded.snapshot.offset
    await history.append(store, (setting(99),))


async def write_some(machine: SimMachine, history: WriteHistory) -> None:
    """A few entries without a snapshot."""
    store = machine.open()
    for number in range(3):
        await history.append(store, (setting(number),))
    await store.close()


def rebuilt(files: dict[str, bytes]) -> SimMachine:
    """A machine whose disk has these files of the store."""
    machine = SimMachine()
    process = machine.disk.process()
    process.make_dir(DIRECTORY)
    for path, content in files.items():
        if content:
            file = process.create(path)
            file.write_at(0, [content])
            file.close()
    return machine
