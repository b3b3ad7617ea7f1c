"""Bugs to plant: each breaks one promise that a careless change would break."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from ottla.errors import LogOffline
from ottla.native import replicated as native_replicated
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.files import Files, read_file, write_all
from ottla.storage.admission import follower_checks
from ottla.storage.directory import checkpoint_files, directory
from ottla.storage.directory.checkpoint_task import Checkpoint
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.offset_checkpoints import OffsetCheckpoints
from ottla.storage.log import appending, replicated_batches
from ottla.storage.log.batch_scan import BatchWalk
from ottla.storage.log.flush import FirstSync, Flush
from ottla.storage.log.index import OffsetIndex, TimeIndex, TransactionIndex
from ottla.storage.log.joint_append import Joint
from ottla.storage.log.leader_epoch_file import EpochFile, EpochSave
from ottla.storage.log.log import Log
from ottla.storage.log.replicated_batches import ReplicatedBatch, ReplicatedRun
from ottla.storage.log.segment import Segment, Unsynced
from ottla.storage.opening import recovery
from ottla.storage.producers import snapshot_files
from ottla.storage.producers.state import ProducerStates

Plant = Callable[[pytest.MonkeyPatch], None]


@dataclass(frozen=True, slots=True)
class Mutant:
    """A bug, and the seeds one of which must meet it."""

    plant: Plant
    seeds: range

    @property
    def name(self) -> str:
        return self.plant.__name__


def recovery_point_moves_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    begin_flush = Log.begin_flush

    def begin(self: Log) -> Flush:
        flush = begin_flush(self)
        self.recovery_point = flush.end_offset
        return flush

    patch.setattr(Log, "begin_flush", begin)


def indexes_are_synced_and_the_log_is_not(patch: pytest.MonkeyPatch) -> None:
    unsynced = Segment.unsynced

    def only_indexes(self: Segment) -> list[Unsynced]:
        return [item for item in unsynced(self) if item.owner is not self]

    patch.setattr(Segment, "unsynced", only_indexes)


def index_entries_beyond_the_recovery_point_are_kept(patch: pytest.MonkeyPatch) -> None:
    def keep_all(self: OffsetIndex | TimeIndex | TransactionIndex, *_: int) -> bool:
        self.trim()
        return True

    for index in (OffsetIndex, TimeIndex, TransactionIndex):
        patch.setattr(index, "keep_valid", keep_all)


def torn_tail_is_not_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Segment, "cut_to_noted", lambda self: 0)


def producers_are_not_rolled_back(patch: pytest.MonkeyPatch) -> None:
    truncate = Log.truncate

    def keep_producers(self: Log, offset: int) -> None:
        producers = self.producers
        truncate(self, offset)
        self.producers = producers

    patch.setattr(Log, "truncate", keep_producers)


def recovery_point_stays_above_a_cut(patch: pytest.MonkeyPatch) -> None:
    save = Log._save

    def save_start_only(
        self: Log, *, start_offset: int | None = None, recovery_point: int | None = None
    ) -> None:
        save(self, start_offset=start_offset)

    patch.setattr(Log, "_save", save_start_only)


def cut_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    def cut(self: Log, offset: int) -> None:
        while self._segments[-1].base_offset > offset:
            self._segments.pop().remove()
        segment = self._segments[-1]
        placed = segment.find(offset)
        if placed:
            segment.truncate(placed.position, placed.header.base_offset)
        self.end_offset = segment.find_end()

    patch.setattr(Log, "_cut", cut)


def snapshots_beyond_a_cut_are_kept(patch: pytest.MonkeyPatch) -> None:
    rebuild = snapshot_files.rebuild_producers

    def rebuild_and_keep(files: Files, directory: str, *args: Any, **named: Any) -> ProducerStates:
        kept = {
            name: read_file(files, f"{directory}/{name}")
            for name in files.list(directory)
            if name.endswith(snapshot_files.SUFFIX)
        }
        producers = rebuild(files, directory, *args, **named)
        for name, content in kept.items():
            if not files.exists(f"{directory}/{name}"):
                write_all(files.create(f"{directory}/{name}"), 0, [content])
        return producers

    patch.setattr(snapshot_files, "rebuild_producers", rebuild_and_keep)


def mark_of_a_clean_stop_stays(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(checkpoint_files, "remove_clean_shutdown", lambda *_: None)


def checksums_are_not_checked_in_recovery(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(BatchWalk, "crc_is_valid", lambda *_: True)


def new_names_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    def run(self: Flush) -> None:
        for item in self.unsynced:
            item.file.sync()

    patch.setattr(Flush, "run", run)


def epochs_are_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EpochSave, "run", lambda self: None)


def the_first_flush_leaves_its_place_to_luck(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FirstSync, "sync", lambda *_: None)


def a_second_segment_comes_before_the_first_is_safe(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Log, "_run_first_sync", lambda *_: None)


def log_stays_online_after_a_failed_sync(patch: pytest.MonkeyPatch) -> None:
    def fail(self: Log, error: Exception) -> None:
        raise LogOffline(self.directory) from error

    patch.setattr(Log, "fail", fail)


def flush_forgets_a_cut_that_came_between(patch: pytest.MonkeyPatch) -> None:
    end_flush = Log.end_flush

    def end(self: Log, flush: Flush) -> None:
        self.truncations = flush.truncations
        end_flush(self, flush)

    patch.setattr(Log, "end_flush", end)


def segment_sealed_at_the_recovery_point_is_trusted(patch: pytest.MonkeyPatch) -> None:
    def count(segments: list[Segment], recovery_point: int) -> int:
        below = [segment for segment in segments[1:] if segment.base_offset <= recovery_point]
        return len(below)

    patch.setattr(recovery, "_count_trusted", count)


def an_older_checkpoint_is_written_over_a_newer(patch: pytest.MonkeyPatch) -> None:
    run = Checkpoint.run

    def run_anyway(self: Checkpoint) -> None:
        self.place.written = 0
        run(self)

    patch.setattr(Checkpoint, "run", run_anyway)


def a_planned_start_is_in_force_at_once(patch: pytest.MonkeyPatch) -> None:
    def plan(self: Log, offset: int) -> None:
        self.planned_start_is_durable(offset, self.truncations)

    patch.setattr(Log, "plan_start", plan)


def a_planned_start_outlives_a_cut(patch: pytest.MonkeyPatch) -> None:
    is_durable = Log.planned_start_is_durable

    def ignore_cuts(self: Log, offset: int, _truncations: int) -> None:
        is_durable(self, offset, self.truncations)

    patch.setattr(Log, "planned_start_is_durable", ignore_cuts)


def a_restart_does_not_save_its_start(patch: pytest.MonkeyPatch) -> None:
    restart_at, save = Log.restart_at, Log._save

    def restart(self: Log, offset: int) -> None:
        def set_start(*, start_offset: int) -> None:
            self.start_offset = start_offset

        patch.setattr(self, "_save", set_start)
        restart_at(self, offset)
        patch.setattr(self, "_save", save.__get__(self))

    patch.setattr(Log, "restart_at", restart)


def a_restart_keeps_the_epochs(patch: pytest.MonkeyPatch) -> None:
    cut = EpochFile.cut

    def cut_some(self: EpochFile, end_offset: int) -> None:
        if end_offset > 0:
            cut(self, end_offset)

    patch.setattr(EpochFile, "cut", cut_some)


def a_restart_keeps_the_producers(patch: pytest.MonkeyPatch) -> None:
    restart_at = Log.restart_at

    def restart(self: Log, offset: int) -> None:
        producers = self.producers
        restart_at(self, offset)
        self.producers = producers

    patch.setattr(Log, "restart_at", restart)


def a_batch_across_the_start_counts_as_flushed(patch: pytest.MonkeyPatch) -> None:
    begin_earlier = Log._begin_earlier

    def begin(self: Log, base_offset: int) -> None:
        recovery_point, self.recovery_point = self.recovery_point, 0
        begin_earlier(self, base_offset)
        self.recovery_point = recovery_point

    patch.setattr(Log, "_begin_earlier", begin)


def only_the_first_epoch_of_a_fetch_is_noted(patch: pytest.MonkeyPatch) -> None:
    write = Log._write_replicated

    def write_some(
        self: Log, content: memoryview, batches: list[ReplicatedBatch], first: int
    ) -> int:
        epoch = batches[first].header.partition_leader_epoch
        like_first = [
            batch._replace(header=batch.header._replace(partition_leader_epoch=epoch))
            for batch in batches
        ]
        return write(self, content, like_first, first)

    patch.setattr(Log, "_write_replicated", write_some)


def markers_within_a_fetch_are_not_replayed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replicated_batches, "marker_of", lambda *_: None)


def batches_of_a_fetch_are_indexed_where_they_were_sent(patch: pytest.MonkeyPatch) -> None:
    join = replicated_batches.join_replicated

    def join_wrongly(
        content: memoryview, batches: Sequence[ReplicatedBatch], segment_bytes: int
    ) -> Joint:
        joint = join(content, batches, segment_bytes)
        return joint._replace(positions=[batch.position for batch in batches])

    patch.setattr(appending, "join_replicated", join_wrongly)


def ordinary_batches_of_a_fetch_are_indexed_where_they_were_sent(
    patch: pytest.MonkeyPatch,
) -> None:
    read = native_replicated.read

    def read_wrongly(content: memoryview, _: int, *of_log: int) -> native_replicated.Run:
        return read(content, 0, *of_log)

    patch.setattr(native_replicated, "read", read_wrongly)


def producers_of_ordinary_batches_are_not_replayed(patch: pytest.MonkeyPatch) -> None:
    read = replicated_batches.read_run

    def read_without(*arguments: Any) -> ReplicatedRun | None:
        run = read(*arguments)
        return None if run is None else run._replace(of_producers=[])

    patch.setattr(replicated_batches, "read_run", read_without)


def a_damaged_batch_of_a_fetch_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(follower_checks, "crc_is_valid", lambda *_: True)


def a_log_below_its_high_watermark_is_not_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogDirectory, "_short_of", lambda _self, opened, *_: opened)


def the_damage_is_reported_by_one_start_only(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(directory, "mark_cut", lambda *_: None)


def a_high_watermark_stays_above_a_cut(patch: pytest.MonkeyPatch) -> None:
    note = OffsetCheckpoints._note_high_watermark

    def note_the_end(
        self: OffsetCheckpoints, partition: TopicPartition, log: Log, high_watermark: int | None
    ) -> None:
        planned_end, log.planned_end = log.planned_end, None
        note(self, partition, log, high_watermark)
        log.planned_end = planned_end

    patch.setattr(OffsetCheckpoints, "_note_high_watermark", note_the_end)


def high_watermarks_are_not_written(patch: pytest.MonkeyPatch) -> None:
    write = Checkpoint._write

    def write_others(self: Checkpoint, name: str, offsets: Any) -> None:
        if name != checkpoint_files.HIGH_WATERMARKS:
            write(self, name, offsets)

    patch.setattr(Checkpoint, "_write", write_others)


MUTANTS = (
    Mutant(recovery_point_moves_before_the_sync, range(50)),
    Mutant(indexes_are_synced_and_the_log_is_not, range(50)),
    Mutant(index_entries_beyond_the_recovery_point_are_kept, range(50)),
    Mutant(torn_tail_is_not_cut, range(50)),
    Mutant(producers_are_not_rolled_back, range(50)),
    Mutant(recovery_point_stays_above_a_cut, range(50)),
    Mutant(cut_is_not_synced, range(50)),
    Mutant(snapshots_beyond_a_cut_are_kept, range(60, 160)),
    Mutant(mark_of_a_clean_stop_stays, range(50)),
    Mutant(checksums_are_not_checked_in_recovery, range(50)),
    Mutant(new_names_are_not_synced, range(50)),
    Mutant(epochs_are_not_written, range(50)),
    Mutant(the_first_flush_leaves_its_place_to_luck, range(100)),
    Mutant(a_second_segment_comes_before_the_first_is_safe, range(1800, 2000)),
    Mutant(log_stays_online_after_a_failed_sync, range(50)),
    Mutant(flush_forgets_a_cut_that_came_between, range(2000)),
    Mutant(segment_sealed_at_the_recovery_point_is_trusted, range(500)),
    Mutant(an_older_checkpoint_is_written_over_a_newer, range(1000)),
    Mutant(a_planned_start_is_in_force_at_once, range(500)),
    Mutant(a_planned_start_outlives_a_cut, range(500)),
    Mutant(a_restart_does_not_save_its_start, range(200)),
    Mutant(a_restart_keeps_the_epochs, range(200)),
    Mutant(a_restart_keeps_the_producers, range(200)),
    Mutant(a_batch_across_the_start_counts_as_flushed, range(200, 400)),
    Mutant(only_the_first_epoch_of_a_fetch_is_noted, range(100)),
    Mutant(markers_within_a_fetch_are_not_replayed, range(100)),
    Mutant(batches_of_a_fetch_are_indexed_where_they_were_sent, range(100)),
    Mutant(ordinary_batches_of_a_fetch_are_indexed_where_they_were_sent, range(100)),
    Mutant(producers_of_ordinary_batches_are_not_replayed, range(100)),
    Mutant(a_damaged_batch_of_a_fetch_is_taken, range(100)),
    Mutant(a_log_below_its_high_watermark_is_not_reported, range(200)),
    Mutant(the_damage_is_reported_by_one_start_only, range(600, 800)),
    Mutant(a_high_watermark_stays_above_a_cut, range(200)),
    Mutant(high_watermarks_are_not_written, range(100)),
)
