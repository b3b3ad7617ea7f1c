"""A round of retention over many logs: one checkpoint per directory, and none of it on the loop."""

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import PeerError
from ottla.replication.append.flusher import Flusher
from ottla.replication.housekeeping.checkpointer import Checkpointer
from ottla.replication.housekeeping.delete_records import Deletion, delete_before
from ottla.replication.housekeeping.tick import Tick, TickRules
from ottla.replication.replica import Replica
from ottla.seams.threads import RealThreads
from ottla.storage.directory.checkpoint_files import HIGH_WATERMARKS, read_offsets
from ottla.storage.log.config import LogConfig
from tests.sim.seams.files import SimFile, SimFiles
from tests.support.broker.produce_and_fetch import NOW_MS
from tests.support.replication.partitions import RULES, Partitions

LOGS = 1_000
BOTH = ("/a", "/b")
CHECK_MS = 1_000
TICK_RULES = TickRules(
    retention_interval_ms=CHECK_MS,
    checkpoint_interval_ms=10**9,
    high_watermark_interval_ms=10**9,
    producer_expiration_ms=10**9,
    disk_reserve_bytes=0,
)
SHORT_LIVED = replace(
    RULES,
    log=LogConfig(segment_ms=1_000),
    retention=replace(RULES.retention, retention_ms=60_000),
)


class Watch:
    """Which checkpoints were written, and what was synced on the loop's thread."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.renamed: list[str] = []
        self.synced_on_the_loop: list[str] = []
        self.synced = 0
        rename, sync, sync_dir = SimFiles.rename, SimFile.sync, SimFiles.sync_dir

        def watched_rename(files: SimFiles, source: str, target: str) -> None:
            self.renamed.append(target)
            rename(files, source, target)

        def watched_sync(file: SimFile) -> None:
            self._note(file.path)
            sync(file)

        def watched_sync_dir(files: SimFiles, path: str) -> None:
            self._note(path)
            sync_dir(files, path)

        patch.setattr(SimFiles, "rename", watched_rename)
        patch.setattr(SimFile, "sync", watched_sync)
        patch.setattr(SimFiles, "sync_dir", watched_sync_dir)

    def _note(self, path: str) -> None:
        self.synced += 1
        if threading.current_thread() is threading.main_thread():
            self.synced_on_the_loop.append(path)

    def written(self, name: str) -> list[str]:
        return [path for path in self.renamed if path.endswith(name)]

    def begin(self) -> None:
        self.renamed.clear()
        self.synced_on_the_loop.clear()
        self.synced = 0


class Chores:
    """What a node composes around its partitions, with real threads."""

    def __init__(self, partitions: Partitions) -> None:
        self.partitions = partitions
        self.threads = RealThreads()
        self.checkpointer = Checkpointer(self.threads)
        self.problems: list[tuple[str, str]] = []
        self.tick = Tick(
            replicas=partitions.replicas,
            flusher=Flusher(self.threads),
            checkpointer=self.checkpointer,
            threads=self.threads,
            clock=partitions.clock,
            rules=TICK_RULES,
            problem=lambda where, error: self.problems.append((where, str(error))),
            solved=lambda _where: None,
            offline=lambda path, error: self.problems.append((path, str(error))),
        )

    def round(self) -> None:
        self.partitions.clock.advance(ms=CHECK_MS)
        asyncio.run(self.tick.round())

    def delete(self, *deletions: Deletion) -> list[int | PeerError]:
        directories = self.partitions.replicas.directories
        return asyncio.run(delete_before(deletions, directories, self.checkpointer))


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def filled(count: int, *, ages_ms: tuple[int, ...]) -> tuple[Partitions, list[Replica]]:
    """So many partitions with a record, and a segment, of each age."""
    partitions = Partitions(SHORT_LIVED, BOTH)
    partitions.create("events", count)
    replicas = [partitions.find("events", index) for index in range(count)]
    now_ms = partitions.clock.wall_ms()
    for replica in replicas:
        for age_ms in ages_ms:
            partitions.append(replica, b"x", timestamp_ms=now_ms - age_ms)
        log_of(replica).flush()
    return partitions, replicas


def log_of(replica: Replica) -> Any:
    assert replica.log is not None
    return replica.log


def test_a_thousand_logs_with_a_segment_to_drop_are_checkpointed_once_per_directory(
    watch: Watch,
) -> None:
    partitions, replicas = filled(LOGS, ages_ms=(100_000, 0))
    chores = Chores(partitions)
    assert {len(log_of(each).segments) for each in replicas} == {2}
    watch.begin()
    chores.round()
    assert sorted(watch.written("log-start-offset-checkpoint")) == [
        f"{path}/log-start-offset-checkpoint" for path in BOTH
    ]
    assert len(watch.written("recovery-point-offset-checkpoint")) == len(BOTH)
    assert len(watch.written(".log.deleted")) == LOGS
    assert {each.start_offset for each in replicas} == {1}
    assert {len(log_of(each).segments) for each in replicas} == {1}
    assert watch.synced_on_the_loop == []
    assert chores.problems == []


def test_starts_are_durable_before_a_segment_is_renamed(watch: Watch) -> None:
    partitions, _ = filled(20, ages_ms=(100_000, 90_000, 0))
    watch.begin()
    Chores(partitions).round()
    names = [path.rpartition(".")[2] for path in watch.renamed]
    assert "deleted" in names
    assert "offset-checkpoint" not in "".join(watch.renamed[names.index("deleted") :])


def test_segments_of_silent_topics_end_without_a_sync_on_the_loop(watch: Watch) -> None:
    partitions, replicas = filled(50, ages_ms=(100_000,))
    chores = Chores(partitions)
    watch.begin()
    chores.round()
    assert {len(log_of(each).segments) for each in replicas} == {2}
    assert watch.synced_on_the_loop == []
    chores.round()
    assert {len(log_of(each).segments) for each in replicas} == {1}
    assert watch.synced_on_the_loop == []


def test_a_periodic_checkpoint_is_not_on_the_loop_either(watch: Watch) -> None:
    partitions, _ = filled(3, ages_ms=(0,))
    chores = Chores(partitions)
    chores.tick.rules = replace(TICK_RULES, checkpoint_interval_ms=CHECK_MS)
    watch.begin()
    chores.round()
    assert len(watch.written("recovery-point-offset-checkpoint")) == len(BOTH)
    assert watch.synced_on_the_loop == []


def test_high_watermarks_are_saved_between_checkpoints_and_not_on_the_loop(watch: Watch) -> None:
    partitions, replicas = filled(3, ages_ms=(0,))
    chores = Chores(partitions)
    chores.tick.rules = replace(TICK_RULES, high_watermark_interval_ms=2 * CHECK_MS)
    watch.begin()
    chores.round()
    assert watch.renamed == [], "not due"
    chores.round()
    assert len(watch.written("replication-offset-checkpoint")) == len(BOTH)
    assert watch.written("recovery-point-offset-checkpoint") == []
    assert watch.synced_on_the_loop == []
    for replica in replicas:
        home = partitions.replicas.directories.directory_of(log_of(replica))
        saved = read_offsets(home.files, f"{home.path}/{HIGH_WATERMARKS}")
        assert saved[replica.name] == replica.high_watermark == 1
    watch.begin()
    chores.round()
    chores.round()
    assert watch.renamed == [], "none has moved"


def test_a_full_disk_delays_high_watermarks(watch: Watch) -> None:
    partitions, _ = filled(3, ages_ms=(0,))
    chores = Chores(partitions)
    chores.tick.rules = replace(TICK_RULES, high_watermark_interval_ms=CHECK_MS)
    partitions.disk.faults.fail_next_write("/a/replication-offset-checkpoint*")
    watch.begin()
    chores.round()
    assert [path for path, _ in chores.problems] == ["/a"]
    assert len(watch.written("replication-offset-checkpoint")) == 1
    chores.round()
    assert len(watch.written("replication-offset-checkpoint")) == 2
    assert [each.offline for each in partitions.replicas.directories.directories] == [None, None]


def test_records_of_many_partitions_are_deleted_with_one_checkpoint_per_directory(
    watch: Watch,
) -> None:
    partitions, replicas = filled(200, ages_ms=(5, 4, 3))
    chores = Chores(partitions)
    watch.begin()
    assert chores.delete(*(Deletion(each, 2) for each in replicas)) == [2] * 200
    assert len(watch.written("log-start-offset-checkpoint")) == len(BOTH)
    assert watch.synced_on_the_loop == []
    watch.begin()
    assert chores.delete(*(Deletion(each, 1) for each in replicas)) == [2] * 200
    assert watch.renamed == [], "nothing moved, so nothing is written"


def test_a_directory_without_room_keeps_its_segments_and_the_other_drops_its_own(
    watch: Watch,
) -> None:
    partitions, replicas = filled(10, ages_ms=(100_000, 0))
    chores = Chores(partitions)
    partitions.disk.faults.fail_next_write("/a/log-start-offset-checkpoint*")
    chores.round()
    starts = {each.name: each.start_offset for each in replicas}
    assert [path for path, _ in chores.problems] == ["/a"]
    assert sorted(starts.values()) == [0] * 5 + [1] * 5
    assert all(log_of(each).offline is None for each in replicas)
    chores.round()
    assert {each.start_offset for each in replicas} == {1}


def test_deleting_beside_a_round_of_retention_moves_each_start_once(watch: Watch) -> None:
    partitions, replicas = filled(40, ages_ms=(100_000, 90_000, 0))
    chores = Chores(partitions)
    partitions.clock.advance(ms=CHECK_MS)
    directories = partitions.replicas.directories

    async def both() -> list[int | PeerError]:
        deletions = [Deletion(each, 3) for each in replicas[:20]]
        _, answers = await asyncio.gather(
            chores.tick.round(), delete_before(deletions, directories, chores.checkpointer)
        )
        return answers

    assert asyncio.run(both()) == [3] * 20
    assert [each.start_offset for each in replicas] == [3] * 20 + [2] * 20
    assert chores.problems == []


def test_a_topic_deleted_while_its_start_is_written_harms_nobody(watch: Watch) -> None:
    partitions, replicas = filled(6, ages_ms=(100_000, 0))
    other = partitions.create("other")
    partitions.append(other, b"x", timestamp_ms=NOW_MS - 100_000)
    partitions.append(other, b"y", timestamp_ms=partitions.clock.wall_ms())
    chores = Chores(partitions)
    partitions.clock.advance(ms=CHECK_MS)

    async def both() -> None:
        task = asyncio.create_task(chores.tick.round())
        await asyncio.sleep(0)
        partitions.delete(replicas[0])
        await task

    asyncio.run(both())
    assert chores.problems == []
    assert other.start_offset == 1
    names = [path for path in partitions.disk.files() if "/events-" in path]
    assert all("-delete/" in path for path in names)
    assert not any(
        b"events" in content
        for path, content in partitions.disk.files().items()
        if path.endswith("offset-checkpoint")
    )
