"""Producer snapshots shorten a restart and are never needed for it."""

from ottla.storage.log.log import Log
from ottla.storage.producers.snapshot_files import snapshot_offsets
from tests.support.storage.workbench import NOW_MS, Workbench, append, batch_from, fill


def last_sequences(log: Log) -> dict[int, int]:
    return {entry.producer_id: entry.last_sequence for entry in log.producers}


def filled(bench: Workbench) -> Log:
    """A few segments, with two producers among many records of nobody."""
    log = bench.open()
    for sequence in range(5):
        append(log, batch_from(7, sequence))
        append(log, batch_from(8, 10 + sequence))
        fill(log, 5)
    return log


def test_a_snapshot_is_taken_at_every_roll_and_at_the_end(bench: Workbench) -> None:
    log = filled(bench)
    bases = [segment.base_offset for segment in log.segments[1:]]
    assert snapshot_offsets(bench.files, bench.directory) == bases
    log.close()
    assert snapshot_offsets(bench.files, bench.directory) == [*bases, log.end_offset]


def test_a_restart_with_a_snapshot_reads_only_what_came_after_it(bench: Workbench) -> None:
    log = filled(bench)
    fill(log, 1000)
    log.close()
    bench.files.read_bytes = 0
    reopened = bench.open(is_clean=True)
    assert last_sequences(reopened) == {7: 4, 8: 14}
    assert bench.files.read_bytes < 0.1 * log.size_bytes + 5000


def test_missing_or_damaged_snapshots_cost_only_time(bench: Workbench) -> None:
    log = filled(bench)
    log.close()
    newest = bench.names(".snapshot")[-1]
    bench.overwrite(newest, 10, b"\xff\xff")
    assert last_sequences(bench.open(is_clean=True)) == {7: 4, 8: 14}
    assert newest not in bench.names(".snapshot")
    bench.remove_all(".snapshot")
    assert last_sequences(bench.open(is_clean=True)) == {7: 4, 8: 14}


def test_snapshots_beyond_the_recovery_point_are_not_believed(bench: Workbench) -> None:
    log = filled(bench)
    assert bench.names(".snapshot")
    other = bench.open()
    assert bench.names(".snapshot") == []
    assert other.producers == log.producers


def test_snapshots_beyond_a_cut_are_removed(bench: Workbench) -> None:
    log = filled(bench)
    middle = log.segments[2].base_offset
    log.truncate(middle + 1)
    assert max(snapshot_offsets(bench.files, bench.directory)) <= middle + 1


def test_snapshots_go_with_the_segments_that_they_belong_to(bench: Workbench) -> None:
    log = filled(bench)
    log.drop_segments(2)
    first = log.segments[0].base_offset
    assert min(snapshot_offsets(bench.files, bench.directory)) >= first


def test_a_producer_whose_records_are_trimmed_is_still_known_by_the_snapshot(
    bench: Workbench,
) -> None:
    log = filled(bench)
    fill(log, 30)
    log.close()
    bench.checkpoint(log)
    reopened = bench.open(is_clean=True)
    reopened.drop_segments(len(reopened.segments) - 1)
    reopened.close()
    again = bench.open(is_clean=True)
    assert last_sequences(again) == {7: 4, 8: 14}
    assert append(again, batch_from(7, 4)).duplicate_timestamp_ms == NOW_MS
