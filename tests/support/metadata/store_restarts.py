"""Lives of an embedded store on a simulated disk, and what each must leave behind."""

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
    """The process ends here: not an Exception, so that nothing can go on after it."""


@dataclass
class Life:
    """What one process did before it died, as far as it was told so."""

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
        """The fold of the first `count` entries that were attempted."""
        entries = tuple(Entry(n, records) for n, records in enumerate(self.attempted[:count]))
        return Image.of(Loaded(Snapshot(-1, ()), entries))

    def check(self, loaded: Loaded) -> None:
        """All that was acknowledged is there, and what was under way is there wholly or not."""
        found = loaded.next_n
        assert found in (self.acknowledged, len(self.attempted))
        assert loaded.snapshot.n in (self.snapshot_done, self.snapshot_begun)
        for entry in loaded.entries:
            assert entry.records == self.attempted[entry.n]
        assert Image.of(loaded) == self.image(found)


def setting(number: int, size: int = 3) -> Config:
    return Config(ResourceKind.BROKER, "", f"key-{number}", "x" * size)


async def live(machine: SimMachine, life: Life) -> None:
    """Everything that writes, in one life: entries, snapshots with and without a tail, a close."""
    store = machine.open()
    await life.append(store, ONE_OF_EACH[:4])
    await life.append(store, (setting(0),))
    await life.save(store, 1)
    await life.append(store, (setting(1, 600), setting(2, 600)))
    await life.append(store, ())
    await life.save(store, 2)
    await life.append(store, (setting(3),))
    await store.close()


def play_until(machine: SimMachine, life: Life, is_end: Callable[[Operation, str], bool]) -> bool:
    """Plays the life until just before an operation of the disk; whether it came to that."""
    harmless = machine.disk.faults.error_for

    def error_for(operation: Operation, path: str) -> int:
        if is_end(operation, path):
            raise Killed
        return harmless(operation, path)

    machine.disk.faults.error_for = error_for  # type: ignore[method-assign]
    try:
        run(live(machine, life))
    except Killed:
        return True
    finally:
        machine.disk.faults.error_for = harmless  # type: ignore[method-assign]
    return False


def after(count: int) -> Callable[[Operation, str], bool]:
    """True once `count` operations have passed."""
    operations = itertools.count()
    return lambda operation, path: next(operations) == count


async def next_life(machine: SimMachine, life: Life) -> None:
    """Opens what is left, finds what must be there, and goes on."""
    store = machine.open()
    loaded = await store.load()
    life.check(loaded)
    del life.attempted[loaded.next_n :]
    life.acknowledged = loaded.next_n
    life.snapshot_done = life.snapshot_begun = loaded.snapshot.n
    await life.append(store, (setting(99),))


async def live_briefly(machine: SimMachine, life: Life) -> None:
    """A few entries, and nothing that replaces them."""
    store = machine.open()
    for number in range(3):
        await life.append(store, (setting(number),))
    await store.close()


def rebuilt(files: dict[str, bytes]) -> SimMachine:
    """A machine whose disk holds these files of the store."""
    machine = SimMachine()
    process = machine.disk.process()
    process.make_dir(DIRECTORY)
    for path, content in files.items():
        if content:
            file = process.create(path)
            file.write_at(0, [content])
            file.close()
    return machine
