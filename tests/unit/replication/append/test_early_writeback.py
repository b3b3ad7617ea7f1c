"""The disk begins early with what is appended, one piece of a file at a time, and quietly."""

import asyncio
import errno
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.replication.append.early_writeback import UNDER_WAY_MAX, EarlyWriteback
from ottla.seams.files import File
from ottla.storage.log.config import LogConfig
from ottla.storage.log.log import Log
from ottla.storage.log.writeback import WRITEBACK_BYTES
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.threads import SimThreads
from tests.support.broker.produce_and_fetch import batch, produce
from tests.support.broker.simulated_broker import Machine, create, new_topic
from tests.support.storage.workbench import NOW_MS, Workbench, append, batch_of

MIB = 1 << 20
LARGE = LogConfig(segment_bytes=64 * MIB)


@pytest.fixture
def bench() -> Workbench:
    return Workbench(SimDisk(0).process(), "/t-0")


class Requests:
    """An owner of a log that notes what it was asked to write."""

    def __init__(self, log: Log) -> None:
        self.taken: list[tuple[str, int, int]] = []
        self.is_busy = False
        self.asked = 0
        log.writeback.start = self.start

    def start(self, file: File, position: int, size: int) -> bool:
        self.asked += 1
        if self.is_busy:
            return False
        self.taken.append((file.path.rpartition("/")[2], position, size))
        return True


def add(log: Log, size: int) -> None:
    append(log, batch_of(NOW_MS, value=bytes(size)))


def test_every_8_mib_are_asked_to_be_written_once(bench: Workbench) -> None:
    log = bench.open(LARGE)
    requests = Requests(log)
    for _ in range(20):
        add(log, MIB)
    first, second = requests.taken
    assert first[:2] == ("00000000000000000000.log", 0)
    assert second[1] == first[2]
    assert all(WRITEBACK_BYTES <= size < WRITEBACK_BYTES + 2 * MIB for _, _, size in requests.taken)
    assert requests.asked == 2


def test_what_could_not_be_begun_is_asked_for_again_with_what_came_since(
    bench: Workbench,
) -> None:
    log = bench.open(LARGE)
    requests = Requests(log)
    requests.is_busy = True
    for _ in range(10):
        add(log, MIB)
    assert requests.asked > 1
    requests.is_busy = False
    add(log, MIB)
    assert requests.taken == [("00000000000000000000.log", 0, log.size_bytes)]


def test_a_new_segment_is_counted_from_its_start_and_a_found_one_from_its_end(
    bench: Workbench,
) -> None:
    log = bench.open(LARGE)
    Requests(log)
    for _ in range(6):
        add(log, MIB)
    again = bench.open(LARGE)
    requests = Requests(again)
    for _ in range(6):
        add(again, MIB)
    assert requests.taken == []
    again.roll()
    for _ in range(9):
        add(again, MIB)
    assert [(name[-7:], position) for name, position, _ in requests.taken] == [("012.log", 0)]


def test_what_is_cut_is_not_counted(bench: Workbench) -> None:
    log = bench.open(LARGE)
    requests = Requests(log)
    for _ in range(9):
        add(log, MIB)
    log.truncate(2)
    for _ in range(9):
        add(log, MIB)
    assert [position for _, position, _ in requests.taken][1] < 3 * MIB


class Slow:
    """A file whose writeback says when it ran."""

    def __init__(self, path: str, *, fails: bool = False) -> None:
        self.path = path
        self.fails = fails
        self.ran: list[tuple[int, int]] = []

    def start_writeback(self, position: int, size: int) -> None:
        self.ran.append((position, size))
        if self.fails:
            raise OSError(errno.EIO, "the disk is gone")


def test_a_file_has_one_under_way_and_all_files_together_few() -> None:
    async def story() -> None:
        tasks: list[asyncio.Task[None]] = []

        def spawn(work: Coroutine[Any, Any, None], name: str) -> None:
            tasks.append(asyncio.create_task(work, name=name))

        early = EarlyWriteback(SimThreads(SimEntropy(0)), spawn)
        files: list[Any] = [Slow(f"/{index}", fails=index == 1) for index in range(4)]
        assert early.start(files[0], 0, 8)
        assert not early.start(files[0], 8, 8)
        assert [early.start(file, 0, 8) for file in files[1:]] == [
            index < UNDER_WAY_MAX for index in range(1, 4)
        ]
        await asyncio.gather(*tasks)
        assert early.start(files[0], 8, 8)
        assert early.start(files[1], 8, 8)
        await asyncio.gather(*tasks)
        assert files[0].ran == files[1].ran == [(0, 8), (8, 8)]

    run(story())


def test_a_broker_that_is_sent_much_begins_to_write_it_before_anybody_flushes() -> None:
    machine = Machine()

    async def story() -> None:
        node = machine.node()
        await node.start()
        client = await machine.client()
        await create(client, new_topic("t"))
        for _ in range(12):
            await client.ask(produce("t", batch(bytes(MIB - 4096))), 12)
        await asyncio.sleep(1)
        client.close()
        assert machine.files is not None
        begun = machine.files.writebacks
        await node.stop()
        assert [path for path, _, _ in begun] == ["/data/t-0/00000000000000000000.log"]
        assert begun[0][2] >= WRITEBACK_BYTES

    run(story(), clock=machine.clock)
