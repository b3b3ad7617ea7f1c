from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.directory.offset_checkpoints import OffsetCheckpoints, SavedOffsets
from ottla.storage.log.log import Log
from tests.support.storage.workbench import Workbench, fill

PARTITION = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)


def run(offsets: OffsetCheckpoints, logs: dict[TopicPartition, Log]) -> None:
    checkpoint = offsets.begin(logs)
    checkpoint.run()
    offsets.end(checkpoint)


def reread(bench: Workbench) -> OffsetCheckpoints:
    offsets = OffsetCheckpoints(bench.files, bench.directory)
    offsets.read()
    return offsets


def test_an_unknown_partition_has_no_start_and_was_never_flushed(sim_bench: Workbench) -> None:
    offsets = reread(sim_bench)
    assert offsets.of(PARTITION) == SavedOffsets(0, None, 0, 0)
    assert offsets.was_never_flushed(PARTITION)
    assert offsets.is_name_free(PARTITION)


def test_a_checkpoint_saves_recovery_point_start_and_cleaner_offset(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 9)
    log.flush()
    log.cleaned_offset = 4
    log.plan_start(3)
    offsets = reread(sim_bench)
    checkpoint = offsets.begin({PARTITION: log})
    checkpoint.run()
    assert log.start_offset == 0, "in force only once the checkpoint is durable"
    offsets.end(checkpoint)
    assert log.start_offset == 3
    assert reread(sim_bench).of(PARTITION) == SavedOffsets(9, 3, 4, 0)


def test_a_planned_start_is_void_after_a_truncation(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 9)
    log.plan_start(8)
    offsets = reread(sim_bench)
    checkpoint = offsets.begin({PARTITION: log})
    log.truncate(5)
    offsets.end(checkpoint)
    assert log.start_offset == 0


def test_an_older_checkpoint_does_not_replace_a_newer_one(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    offsets = reread(sim_bench)
    older = offsets.begin({PARTITION: log})
    fill(log, 2)
    log.flush()
    run(offsets, {PARTITION: log})
    older.run()
    assert reread(sim_bench).of(PARTITION).recovery_point == 2


def test_a_deleted_name_is_free_once_a_later_checkpoint_is_durable(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 2)
    log.flush()
    offsets = reread(sim_bench)
    run(offsets, {PARTITION: log})
    begun_before = offsets.begin({PARTITION: log})
    offsets.forget(PARTITION)
    begun_before.run()
    offsets.end(begun_before)
    assert not offsets.is_name_free(PARTITION)
    run(offsets, {})
    assert offsets.is_name_free(PARTITION)
    assert reread(sim_bench).of(PARTITION) == SavedOffsets(0, None, 0, 0)


def test_partitions_that_are_not_in_the_directory_are_forgotten(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 2)
    log.flush()
    offsets = reread(sim_bench)
    run(offsets, {PARTITION: log, OTHER: log})
    offsets.forget_except({OTHER})
    assert offsets.of(PARTITION) == SavedOffsets(0, None, 0, 0)
    assert offsets.of(OTHER).recovery_point == 2


def test_a_closed_log_is_flushed_to_its_end(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 2)
    log.close()
    offsets = reread(sim_bench)
    offsets.note_closed(PARTITION, log)
    run(offsets, {PARTITION: log})
    assert reread(sim_bench).of(PARTITION).recovery_point == 2


def test_a_checkpoint_saves_the_high_watermarks_that_it_is_told(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 9)
    offsets = reread(sim_bench)
    checkpoint = offsets.begin({PARTITION: log}, {PARTITION: 6}.get)
    checkpoint.run()
    offsets.end(checkpoint)
    assert reread(sim_bench).of(PARTITION).high_watermark == 6
    assert offsets.begin({PARTITION: log}).high_watermarks is None, "the file has them already"


def test_high_watermarks_are_saved_alone(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 9)
    offsets = reread(sim_bench)
    run(offsets, {PARTITION: log})
    log.flush()
    checkpoint = offsets.begin_high_watermarks({PARTITION: log}, {PARTITION: 6}.get)
    assert checkpoint is not None
    checkpoint.run()
    offsets.end_high_watermarks(checkpoint)
    assert reread(sim_bench).of(PARTITION) == SavedOffsets(0, 0, 0, 6)
    assert offsets.begin_high_watermarks({PARTITION: log}, {PARTITION: 6}.get) is None
    assert offsets.begin({PARTITION: log}).high_watermarks is None, "the file has them already"


def test_high_watermarks_of_before_a_truncation_do_not_replace_later_ones(
    sim_bench: Workbench,
) -> None:
    """Otherwise the log would end below its high watermark, and count as damaged."""
    log = sim_bench.open()
    fill(log, 9)
    offsets = reread(sim_bench)
    late = offsets.begin_high_watermarks({PARTITION: log}, {PARTITION: 6}.get)
    assert late is not None
    log.planned_end = 4
    run(offsets, {PARTITION: log})
    late.run()
    offsets.end_high_watermarks(late)
    assert reread(sim_bench).of(PARTITION).high_watermark == 4


def test_a_truncation_lowers_a_high_watermark_that_a_thread_has_just_written(
    sim_bench: Workbench,
) -> None:
    """The loop has not heard of it, and knows that the file had the lower one before."""
    log = sim_bench.open()
    fill(log, 9)
    offsets = reread(sim_bench)
    checkpoint = offsets.begin({PARTITION: log}, {PARTITION: 4}.get)
    checkpoint.run()
    offsets.end(checkpoint)
    thread = offsets.begin_high_watermarks({PARTITION: log}, {PARTITION: 6}.get)
    assert thread is not None
    thread.run()
    log.planned_end = 4
    run(offsets, {PARTITION: log})
    offsets.end_high_watermarks(thread)
    assert reread(sim_bench).of(PARTITION).high_watermark == 4
    assert offsets.begin({PARTITION: log}).high_watermarks is None, "the file has them already"


def test_no_high_watermark_is_saved_beyond_the_end_of_its_log(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 9)
    checkpoint = reread(sim_bench).begin({PARTITION: log}, {PARTITION: 50}.get)
    assert checkpoint.high_watermarks == {PARTITION: 9}


def test_a_closed_log_keeps_its_high_watermark(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 9)
    log.close()
    offsets = reread(sim_bench)
    offsets.note_closed(PARTITION, log, 7)
    run(offsets, {PARTITION: log})
    assert reread(sim_bench).of(PARTITION).high_watermark == 7


def test_a_partition_with_committed_records_is_missed(sim_bench: Workbench) -> None:
    log = sim_bench.open()
    fill(log, 2)
    offsets = reread(sim_bench)
    checkpoint = offsets.begin({PARTITION: log, OTHER: log}, {PARTITION: 1}.get)
    checkpoint.run()
    offsets.end(checkpoint)
    assert offsets.forget_except(set()) == {PARTITION}, "nothing of it was flushed"
