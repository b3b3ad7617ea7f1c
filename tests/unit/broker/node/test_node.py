"""The number of syncs of a start does not grow with the number of partitions."""

import pytest

from tests.sim.seams.files import SimFile, SimFiles
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, produce
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic


class Syncs:
    """Counts the syncs of a disk."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        file_sync, directory_sync = SimFile.sync, SimFiles.sync_dir

        def sync(file: SimFile) -> None:
            self.count += 1
            file_sync(file)

        def sync_dir(files: SimFiles, path: str) -> None:
            self.count += 1
            directory_sync(files, path)

        patch.setattr(SimFile, "sync", sync)
        patch.setattr(SimFiles, "sync_dir", sync_dir)

    def taken(self) -> int:
        taken, self.count = self.count, 0
        return taken


async def fill(client: Client, partitions: int) -> None:
    await create(client, new_topic("t", partitions))
    await client.ask(produce("t", *(batch(b"value") for _ in range(partitions))), 12)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(monkeypatch)


def test_syncs_of_start_and_stop_do_not_grow_with_partitions(syncs: Syncs) -> None:
    async def lives(partitions: int) -> list[int]:
        """The syncs of two starts and stops without appends."""
        machine = Machine()
        async with machine.broker() as client:
            await fill(client, partitions)
        taken = []
        for _ in range(2):
            node = machine.node()
            syncs.taken()
            await node.start()
            taken.append(syncs.taken())
            await node.stop()
            taken.append(syncs.taken())
        return taken

    few, many = run(lives(2)), run(lives(60))
    assert few == many


def test_starts_without_appends_write_no_leader_epochs(syncs: Syncs) -> None:
    """Each start begins a leader epoch in memory; the file has only epochs with records."""
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            await fill(client, 1)
        for _ in range(3):
            async with machine.broker():
                pass
        path = "/data/t-0/leader-epoch-checkpoint"
        assert machine.disk.files()[path] == b"0\n1\n0 0\n"
        async with machine.broker() as client:
            await client.ask(produce("t", batch(b"more")), 12)
        assert machine.disk.files()[path] == b"0\n2\n0 0\n4 1\n"

    run(story(), clock=machine.clock)
