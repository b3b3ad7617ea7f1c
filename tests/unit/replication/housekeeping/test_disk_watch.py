import asyncio
from typing import Any

import pytest

from ottla.replication.housekeeping.disk_watch import DISK_RESERVE, DiskWatch
from ottla.seams.threads import RealThreads
from ottla.storage.directory.directory import LogDirectory
from tests.support.replication.partitions import Partitions


class Watched:
    """Two log directories and the reports about them."""

    def __init__(self, reserve_bytes: int) -> None:
        self.partitions = Partitions(paths=("/a", "/b"))
        self.directories = self.partitions.replicas.directories
        self.problems: list[str] = []
        self.solved: list[str] = []
        self.offline: list[str] = []
        self.watch = DiskWatch(
            replicas=self.partitions.replicas,
            threads=RealThreads(),
            reserve_bytes=reserve_bytes,
            problem=lambda where, _: self.problems.append(where),
            solved=self.solved.append,
            offline=lambda path, _: self.offline.append(path),
        )


def free_bytes(watched: Watched) -> int:
    return watched.directories.directories[0].files.free_bytes("/a")


def test_a_disk_below_its_reserve_is_reported_once_and_again_when_it_has_room() -> None:
    watched = Watched(reserve_bytes=0)
    watched.watch.reserve_bytes = free_bytes(watched) + 1
    watched.watch.check()
    watched.watch.check()
    assert sorted(watched.directories.full) == ["/a", "/b"]
    assert sorted(watched.problems) == [f"{DISK_RESERVE} of /a", f"{DISK_RESERVE} of /b"]
    watched.watch.reserve_bytes = 0
    watched.watch.check()
    assert not watched.directories.full
    assert sorted(watched.solved) == sorted(watched.problems)
    assert sorted(watched.watch.free_bytes) == ["/a", "/b"]


def test_a_directory_that_fails_is_reported_once_and_wakes_parked_requests() -> None:
    watched = Watched(reserve_bytes=0)
    replica = watched.partitions.create()
    watched.partitions.append(replica, b"a")
    woken: list[Any] = []

    class Parked:
        def count(self, amount: int) -> None:
            raise AssertionError(amount)

        def wake(self) -> None:
            woken.append(self)

    replica.waiting.enter(Parked())
    assert replica.log is not None
    home = watched.directories.directory_of(replica.log)
    watched.watch.check()
    home.fail(OSError("gone"))
    watched.watch.check()
    watched.watch.check()
    assert watched.offline == [home.path]
    assert len(woken) == 1
    assert home.path not in watched.watch.free_bytes


def test_the_logs_of_a_failed_directory_are_marked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(reserve_bytes=0)
    marked: list[str] = []
    monkeypatch.setattr(LogDirectory, "mark_logs_unsynced", lambda self: marked.append(self.path))
    for directory in watched.directories.directories:
        directory.fail(OSError("gone"))

    async def mark_twice() -> None:
        await watched.watch.mark_offline_logs()
        await watched.watch.mark_offline_logs()

    asyncio.run(mark_twice())
    assert marked == ["/a", "/b"]
