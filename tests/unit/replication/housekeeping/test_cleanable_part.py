from ottla.replication.housekeeping.cleanable_part import (
    CleanerRules,
    cleaning_job,
    find_cleanable,
)
from ottla.storage.compaction.rules import CompactionRules
from ottla.storage.log.log import Log
from tests.sim.seams.disk import SimDisk
from tests.support.replication.partitions import RULES
from tests.support.storage.workbench import NOW_MS, Workbench, append, batch_of

COMPACTED = CompactionRules(compacts=True)


def log_of_three_segments() -> Log:
    log = Workbench(SimDisk(0).process(), "/t-0").open()
    for number in range(3):
        append(log, batch_of(NOW_MS + number))
        if number < 2:
            log.roll()
    log.flush()
    return log


def test_closed_segments_below_the_last_stable_offset_are_dirty() -> None:
    log = log_of_three_segments()
    found = find_cleanable(log, COMPACTED, log.end_offset, NOW_MS)
    sizes = [segment.size_bytes for segment in log.segments]
    assert (found.first_dirty_offset, found.end_offset) == (0, 2)
    assert (found.clean_bytes, found.dirty_bytes) == (0, sizes[0] + sizes[1])
    log.cleaned_offset = 1
    found = find_cleanable(log, COMPACTED, log.end_offset, NOW_MS)
    assert (found.clean_bytes, found.dirty_bytes) == (sizes[0], sizes[1])
    assert find_cleanable(log, COMPACTED, 1, NOW_MS).dirty_bytes == 0


def test_records_that_are_not_flushed_are_not_cleanable() -> None:
    log = log_of_three_segments()
    log.recovery_point = 1
    assert find_cleanable(log, COMPACTED, log.end_offset, NOW_MS).end_offset == 1


def test_the_oldest_dirty_record_counts_against_the_maximum_lag() -> None:
    log = log_of_three_segments()
    rules = CompactionRules(compacts=True, max_lag_ms=1000)
    assert find_cleanable(log, rules, log.end_offset, NOW_MS + 1000).overdue_ms == 0
    assert find_cleanable(log, rules, log.end_offset, NOW_MS + 1500).overdue_ms == 500


def test_a_job_names_the_segments_to_read() -> None:
    log = log_of_three_segments()
    found = find_cleanable(log, COMPACTED, log.end_offset, NOW_MS)
    job = cleaning_job(log, found, RULES, CleanerRules(window_bytes=77), NOW_MS)
    sizes = [segment.size_bytes for segment in log.segments]
    assert list(job.segments) == [(0, 1, sizes[0]), (1, 2, sizes[1])]
    assert (job.directory, job.end_offset, job.window_bytes) == ("/t-0", 2, 77)
