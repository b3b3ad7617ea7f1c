"""A log directory belongs to one process, remembers how it was left, and keeps its logs apart."""

import errno

import pytest

from ottla.errors import CorruptLog, LogOffline, StorageError
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.files import Files
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.directory import LogDirectory
from ottla.storage.directory.directory_opening import DirectoryInUse, WrongCluster, open_directory
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.files import SimFiles
from tests.support.storage.workbench import SMALL, Workbench, append, batch_of, fill, offsets

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID, OTHER_ID = Uuid(b"\5" * 16), Uuid(b"\7" * 16)


def open_at(
    files: Files, path: str, *, cluster_id: str = "cluster", node_id: int = 1
) -> LogDirectory:
    return open_directory(
        files,
        path,
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=Uuid(b"\6" * 16),
        config_of=lambda _: SMALL,
        clock=SimClock(),
    )


def close(directory: LogDirectory) -> None:
    directory.close(broker_epoch=3)


def is_marked_clean(files: Files, path: str) -> bool:
    return files.exists(f"{path}/{checkpoint_files.CLEAN_SHUTDOWN}")


def with_directory(disk: SimDisk) -> SimFiles:
    """A new process's files, `/d` among them."""
    files = disk.process()
    files.make_dir("/d")
    files.sync_dir("/")
    return files


@pytest.fixture
def files(disk: SimDisk) -> Files:
    return with_directory(disk)


def test_a_new_directory_is_stamped_and_its_logs_are_found_again(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    fill(directory.create(FIRST, TOPIC_ID), 5)
    fill(directory.create(SECOND, TOPIC_ID), 3)
    close(directory)
    again = open_at(bench.files, bench.directory)
    assert again.meta.cluster_id == "cluster"
    assert {name: log.end_offset for name, log in again.logs.items()} == {FIRST: 5, SECOND: 3}
    assert again.topic_ids == {FIRST: TOPIC_ID, SECOND: TOPIC_ID}
    assert again.unusable == {}


def test_a_new_log_is_made_without_waiting_for_the_disk(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    bench.files.synced.clear()
    fill(directory.create(FIRST, TOPIC_ID), 5)
    assert bench.files.synced == []


@pytest.mark.parametrize("seed", range(20))
def test_the_first_flush_makes_a_new_logs_directory_durable(seed: int) -> None:
    disk = SimDisk(seed)
    directory = open_at(with_directory(disk), "/d")
    log = directory.create(FIRST, TOPIC_ID)
    fill(log, 5)
    log.flush()
    directory.checkpoint()
    disk.power_loss()

    again = open_at(disk.process(), "/d")
    assert again.unusable == {}
    assert again.topic_ids == {FIRST: TOPIC_ID}
    assert offsets(again.logs[FIRST]) == list(range(5))


@pytest.mark.parametrize("seed", range(40))
def test_a_power_loss_before_the_first_flush_leaves_nothing_that_is_in_the_way(seed: int) -> None:
    disk = SimDisk(seed)
    directory = open_at(with_directory(disk), "/d")
    fill(directory.create(FIRST, TOPIC_ID), 5)
    disk.power_loss()

    again = open_at(disk.process(), "/d")
    assert again.unusable == {}
    assert again.topic_ids.get(FIRST, TOPIC_ID) == TOPIC_ID
    if FIRST not in again.logs:
        again.create(FIRST, TOPIC_ID)
    again.write_topic_id(FIRST, TOPIC_ID)
    fill(again.logs[FIRST], 1)
    close(again)
    disk.power_loss()

    assert open_at(disk.process(), "/d").topic_ids == {FIRST: TOPIC_ID}


@pytest.mark.parametrize("seed", range(20))
def test_a_process_that_dies_before_the_first_flush_leaves_it_to_the_next(seed: int) -> None:
    disk = SimDisk(seed)
    files = with_directory(disk)
    fill(open_at(files, "/d").create(FIRST, TOPIC_ID), 5)
    files.crash()

    second = open_at(disk.process(), "/d")
    second.logs[FIRST].flush()
    second.checkpoint()
    disk.power_loss()

    again = open_at(disk.process(), "/d")
    assert again.topic_ids == {FIRST: TOPIC_ID}
    assert offsets(again.logs[FIRST]) == list(range(5))


def test_whose_a_flushed_log_is_is_not_guessed(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    fill(directory.create(FIRST, TOPIC_ID), 5)
    close(directory)
    bench.overwrite(f"{FIRST}/{checkpoint_files.PARTITION_METADATA}", 0, b"\0\0\0\0")
    assert isinstance(open_at(bench.files, bench.directory).unusable[FIRST], CorruptLog)


def test_many_partitions_are_taken_away_by_as_many_syncs_as_one(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    for index in range(10):
        fill(directory.create(TopicPartition("t", index), TOPIC_ID), 1)
    bench.files.synced.clear()
    left = directory.delete([FIRST], "abc")
    of_one = len(bench.files.synced)
    left += directory.delete([TopicPartition("t", index) for index in range(1, 10)], "abc")
    assert len(bench.files.synced) == 2 * of_one
    assert (len(left), directory.logs) == (10, {})
    assert all(bench.files.is_dir(path) for path in left)


def test_a_partition_is_renamed_durably_before_its_recovery_point_is_forgotten(
    bench: Workbench,
) -> None:
    directory = open_at(bench.files, bench.directory)
    fill(directory.create(FIRST, TOPIC_ID), 1)
    bench.files.synced.clear()
    directory.begin_delete([FIRST], "abc")
    assert bench.files.synced == []
    directory.checkpoint()
    assert bench.files.synced[0] == bench.directory
    assert checkpoint_files.LOG_START_OFFSETS in bench.files.synced[1]
    bench.files.synced.clear()
    directory.checkpoint()
    assert checkpoint_files.LOG_START_OFFSETS in bench.files.synced[0], "nothing was renamed since"


def test_partitions_with_the_longest_names_are_taken_away_together(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    partitions = [TopicPartition("t" * 249, index) for index in range(12)]
    for partition in partitions:
        fill(directory.create(partition, TOPIC_ID), 1)
    left = directory.delete(partitions, "0" * 32)
    assert (len(set(left)), directory.logs, directory.offline) == (12, {}, None)
    close(directory)
    # The next start knows them for what they are.
    close(open_at(bench.files, bench.directory))
    assert not any(bench.files.exists(path) for path in left)


def test_a_directory_is_used_by_one_process_at_a_time(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    with pytest.raises(DirectoryInUse):
        open_at(bench.files, bench.directory)
    close(directory)
    close(open_at(bench.files, bench.directory))


def test_a_directory_of_another_cluster_or_node_is_left_alone(bench: Workbench) -> None:
    close(open_at(bench.files, bench.directory))
    with pytest.raises(WrongCluster):
        open_at(bench.files, bench.directory, cluster_id="other")
    with pytest.raises(WrongCluster):
        open_at(bench.files, bench.directory, node_id=2)
    close(open_at(bench.files, bench.directory))


def test_a_directory_with_partitions_and_no_stamp_is_not_taken_over(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    directory.create(FIRST, TOPIC_ID)
    close(directory)
    bench.files.remove(bench.path(checkpoint_files.META_PROPERTIES))
    with pytest.raises(CorruptLog, match="partitions are here"):
        open_at(bench.files, bench.directory)


def test_the_mark_of_a_clean_stop_is_there_only_while_nobody_works(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    log = directory.create(FIRST, TOPIC_ID)
    fill(log, 5)
    assert not is_marked_clean(bench.files, bench.directory)
    close(directory)
    assert is_marked_clean(bench.files, bench.directory)
    again = open_at(bench.files, bench.directory)
    assert not is_marked_clean(bench.files, bench.directory)
    assert again.recoveries[FIRST].scanned_bytes == 0
    assert again.logs[FIRST].recovery_point == 5


def test_recovery_points_and_starts_are_remembered_across_a_crash(
    disk: SimDisk, files: Files
) -> None:
    directory = open_at(files, "/d")
    log = directory.create(FIRST, TOPIC_ID)
    fill(log, 30)
    log.flush()
    log.advance_start(13)
    append(log, batch_of(1))
    disk.power_loss()
    again = open_at(disk.process(), "/d")
    assert again.logs[FIRST].start_offset == 13
    assert again.logs[FIRST].recovery_point == 30
    assert again.logs[FIRST].end_offset in (30, 31)


def test_trimmed_segments_stay_trimmed_though_their_removal_is_lost(
    disk: SimDisk, files: Files
) -> None:
    directory = open_at(files, "/d")
    log = directory.create(FIRST, TOPIC_ID)
    fill(log, 30)
    log.flush()
    log.drop_segments(2)
    start_offset = log.start_offset
    directory.checkpoint()
    disk.power_loss(reordering=True)
    again = open_at(disk.process(), "/d")
    assert again.logs[FIRST].start_offset == start_offset
    assert offsets(again.logs[FIRST]) == list(range(start_offset, 30))


def test_a_log_that_cannot_be_opened_harms_no_other_and_no_stop_is_clean(
    bench: Workbench,
) -> None:
    directory = open_at(bench.files, bench.directory)
    for name in (FIRST, SECOND):
        fill(directory.create(name, TOPIC_ID), 5)
    close(directory)
    damaged = f"{FIRST}/00000000000000000000.log"
    last = bench.files.size(bench.path(damaged)) * 4 // 5
    bench.overwrite(damaged, last + 16, b"\x7f")
    again = open_at(bench.files, bench.directory)
    assert list(again.logs) == [SECOND]
    assert isinstance(again.unusable[FIRST], CorruptLog)
    close(again)
    assert not is_marked_clean(bench.files, bench.directory)
    # What was known of the damaged one is kept for whoever mends it.
    points = checkpoint_files.read_offsets(
        bench.files, bench.path(checkpoint_files.RECOVERY_POINTS)
    )
    assert points == {FIRST: 5, SECOND: 5}


def test_a_log_that_went_offline_is_not_vouched_for_by_a_stop(disk: SimDisk, files: Files) -> None:
    directory = open_at(files, "/d")
    broken, sound = (directory.create(name, TOPIC_ID) for name in (FIRST, SECOND))
    fill(broken, 5)
    fill(sound, 5)
    disk.faults.fail_next_sync(f"/d/{FIRST}/*.log")
    with pytest.raises(LogOffline):
        broken.flush()
    close(directory)
    assert not is_marked_clean(files, "/d")
    points = checkpoint_files.read_offsets(files, f"/d/{checkpoint_files.RECOVERY_POINTS}")
    assert points == {SECOND: 5}


def test_a_stop_that_finds_no_room_still_gives_the_lock_back(disk: SimDisk, files: Files) -> None:
    directory = open_at(files, "/d")
    fill(directory.create(FIRST, TOPIC_ID), 5)
    disk.faults.fail_next_write(f"/d/{checkpoint_files.RECOVERY_POINTS}*")
    assert "No space" in str(directory.close(broker_epoch=3)["/d"])
    assert not is_marked_clean(files, "/d")
    assert offsets(open_at(files, "/d").logs[FIRST]) == list(range(5))


def test_a_partition_that_finds_no_room_leaves_nothing_behind(disk: SimDisk, files: Files) -> None:
    directory = open_at(files, "/d")
    for operation, pattern in (("write", "*partition.metadata*"), ("create", "*.log")):
        disk.faults.fail_next(operation, pattern, error=errno.ENOSPC)  # type: ignore[arg-type]
        with pytest.raises(OSError, match="No space"):
            directory.create(FIRST, TOPIC_ID)
        assert not files.exists(f"/d/{FIRST}")
    fill(directory.create(FIRST, TOPIC_ID), 1)
    assert directory.unusable == {}


def test_a_deleted_partition_leaves_its_name_free_and_nothing_to_inherit(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    log = directory.create(FIRST, TOPIC_ID)
    fill(log, 30)
    log.flush()
    log.advance_start(20)
    (left,) = directory.delete([FIRST], "abc")
    with pytest.raises(LogOffline):
        fill(log, 1)
    fill(directory.create(FIRST, TOPIC_ID), 2)
    directory.purge(left)
    assert not bench.files.exists(left)
    close(directory)
    again = open_at(bench.files, bench.directory)
    assert offsets(again.logs[FIRST]) == [0, 1]


def flushed(directory: LogDirectory, count: int) -> None:
    """A partition whose recovery point and start are written down."""
    log = directory.create(FIRST, TOPIC_ID)
    fill(log, count)
    log.flush()
    log.advance_start(count // 2)


def test_a_name_is_not_used_again_while_the_old_recovery_point_is_written_down(
    disk: SimDisk, files: Files
) -> None:
    directory = open_at(files, "/d")
    flushed(directory, 30)
    disk.faults.fail_next_write(f"/d/{checkpoint_files.RECOVERY_POINTS}*")
    directory.delete([FIRST], "abc")
    points = f"/d/{checkpoint_files.RECOVERY_POINTS}"
    assert checkpoint_files.read_offsets(files, points) == {FIRST: 30}

    disk.faults.fail_next_write(f"/d/{checkpoint_files.RECOVERY_POINTS}*")
    with pytest.raises(OSError, match="No space"):
        directory.create(FIRST, OTHER_ID)
    assert not files.exists(f"/d/{FIRST}")
    fill(directory.create(FIRST, OTHER_ID), 2)
    disk.power_loss()

    again = open_at(disk.process(), "/d")
    assert again.unusable == {}
    assert again.logs[FIRST].end_offset <= 2


def test_a_crash_before_the_old_recovery_point_is_forgotten_leaves_nothing_to_inherit(
    disk: SimDisk, files: Files
) -> None:
    directory = open_at(files, "/d")
    flushed(directory, 30)
    disk.faults.fail_next_write(f"/d/{checkpoint_files.RECOVERY_POINTS}*")
    directory.delete([FIRST], "abc")
    disk.power_loss()

    second = open_at(disk.process(), "/d")
    fill(second.create(FIRST, OTHER_ID), 2)
    disk.power_loss()

    again = open_at(disk.process(), "/d")
    assert again.unusable == {}
    assert FIRST not in again.logs or again.logs[FIRST].end_offset <= 2


def test_a_later_partition_of_the_name_does_not_pass_for_compacted(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    directory.create(FIRST, TOPIC_ID)
    fill(directory.create(SECOND, TOPIC_ID), 7)
    close(directory)
    cleaned = bench.path(checkpoint_files.CLEANER_OFFSETS)
    checkpoint_files.write_offsets(bench.files, cleaned, {FIRST: 1_000, SECOND: 7})

    again = open_at(bench.files, bench.directory)
    again.delete([FIRST], "abc")

    assert checkpoint_files.read_offsets(bench.files, cleaned) == {SECOND: 7}


def test_whose_a_directory_is_is_known_even_if_its_log_cannot_be_opened(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    fill(directory.create(FIRST, TOPIC_ID), 5)
    close(directory)
    damaged = f"{FIRST}/00000000000000000000.log"
    bench.overwrite(damaged, bench.files.size(bench.path(damaged)) * 4 // 5 + 16, b"\x7f")
    again = open_at(bench.files, bench.directory)
    assert FIRST in again.unusable
    assert again.topic_ids == {FIRST: TOPIC_ID}


def test_what_a_crash_left_of_a_deleted_partition_is_removed_at_the_next_start(
    bench: Workbench,
) -> None:
    directory = open_at(bench.files, bench.directory)
    directory.create(FIRST, TOPIC_ID)
    (left,) = directory.delete([FIRST], "abc")
    close(directory)
    assert bench.files.exists(left)
    close(open_at(bench.files, bench.directory))
    assert not bench.files.exists(left)


def test_a_directory_that_fails_takes_all_of_its_logs_offline(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    logs = [directory.create(name, TOPIC_ID) for name in (FIRST, SECOND)]
    directory.fail(OSError(errno.EIO, "gone"))
    for log in logs:
        with pytest.raises(LogOffline, match="gone"):
            fill(log, 1)
    with pytest.raises(StorageError, match="offline"):
        directory.create(TopicPartition("u", 0), TOPIC_ID)
    close(directory)
    assert not is_marked_clean(bench.files, bench.directory)


# --- logs that begin above 0, and high watermarks ---------------------------------------------


def test_a_log_is_created_at_the_offset_at_which_its_leader_starts(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    log = directory.create(FIRST, TOPIC_ID, 70)
    assert (log.start_offset, log.end_offset, log.messages_unflushed) == (70, 70, 0)
    assert log.has_unflushed_segments, "so that its name is made durable soon"
    log.append_replicated(batch_of(1, base_offset=70, leader_epoch=2))
    close(directory)
    again = open_at(bench.files, bench.directory)
    assert (again.logs[FIRST].start_offset, offsets(again.logs[FIRST])) == (70, [70])
    assert again.recoveries[FIRST].cut_because is None


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_log_created_above_0_survives_what_others_survive(seed: int, is_flushed: bool) -> None:
    disk = SimDisk(seed)
    directory = open_at(with_directory(disk), "/d")
    log = directory.create(FIRST, TOPIC_ID, 70)
    if is_flushed:
        log.flush()
    directory.checkpoint()
    disk.power_loss()

    again = open_at(disk.process(), "/d")
    assert again.unusable == {}
    assert FIRST not in again.missing
    found = again.logs.get(FIRST)
    if is_flushed:
        assert again.topic_ids == {FIRST: TOPIC_ID}
        assert found is not None
        assert (found.start_offset, found.end_offset) == (70, 70)
    elif found is not None:
        assert found.start_offset == found.end_offset


def test_high_watermarks_are_found_again(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    for name in (FIRST, SECOND):
        fill(directory.create(name, TOPIC_ID), 9)
    directory.high_watermark_of = {FIRST: 4, SECOND: 50}.get
    checkpoint = directory.begin_checkpoint()
    checkpoint.run()
    directory.end_checkpoint(checkpoint)
    directory.lock.release()
    again = open_at(bench.files, bench.directory)
    assert (again.high_watermark(FIRST), again.high_watermark(SECOND)) == (4, 9)
    again.high_watermark_of = {FIRST: 7, SECOND: 8}.get
    close(again)
    last = open_at(bench.files, bench.directory)
    assert (last.high_watermark(FIRST), last.high_watermark(SECOND)) == (7, 8)
    assert all(each.cut_because is None for each in last.recoveries.values())


def test_a_checkpoint_on_the_loop_does_not_write_high_watermarks(bench: Workbench) -> None:
    directory = open_at(bench.files, bench.directory)
    fill(directory.create(FIRST, TOPIC_ID), 9)
    directory.high_watermark_of = {FIRST: 4}.get
    directory.checkpoint()
    assert directory.high_watermark(FIRST) == 0
    assert not bench.files.exists(f"{bench.directory}/{checkpoint_files.HIGH_WATERMARKS}")


def with_high_watermark(files: Files, path: str) -> LogDirectory:
    """A log of nine records, all committed, and none flushed."""
    directory = open_at(files, path)
    fill(directory.create(FIRST, TOPIC_ID), 9)
    directory.high_watermark_of = {FIRST: 9}.get
    checkpoint = directory.begin_checkpoint()
    checkpoint.run()
    directory.end_checkpoint(checkpoint)
    return directory


def test_a_log_that_ends_below_its_high_watermark_is_damaged(bench: Workbench) -> None:
    """Until the damage is recorded, every start reports it."""
    with_high_watermark(bench.files, bench.directory).lock.release()
    path = f"{bench.directory}/{FIRST}/{0:020d}.log"
    file = bench.files.open(path)
    file.truncate(5 * (file.size() // 9))
    file.close()
    for _ in range(2):
        again = open_at(bench.files, bench.directory)
        assert again.logs[FIRST].end_offset == 5
        recovery = again.recoveries[FIRST]
        assert recovery.cut_because is not None
        assert not recovery.is_torn_write
        again.lock.release()
    assert again.high_watermark(FIRST) == 5
    again.damage_recorded()
    last = open_at(bench.files, bench.directory)
    assert last.recoveries[FIRST].cut_because is None


class Killed(BaseException):
    """The process ends here."""


def test_a_truncation_below_the_high_watermark_that_is_killed_is_no_damage() -> None:
    """An unclean leader took over: the checkpoint is lowered before the log is cut."""
    for spared in range(100):
        disk = SimDisk(spared)
        directory = with_high_watermark(with_directory(disk), "/d")
        directory.logs[FIRST].flush()
        harmless, left = disk.faults.error_for, spared

        def error_for(operation: object, path: str) -> int:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return 0

        disk.faults.error_for = error_for  # type: ignore[method-assign]
        is_done = True
        try:
            directory.logs[FIRST].truncate(4)
        except Killed:
            is_done = False
        disk.faults.error_for = harmless  # type: ignore[method-assign]
        disk.power_loss()
        again = open_at(disk.process(), "/d")
        assert again.recoveries[FIRST].cut_because is None, spared
        assert again.logs[FIRST].end_offset in (4, 9)
        if is_done:
            assert again.logs[FIRST].end_offset == 4
            return
    pytest.fail("the truncation never ended")
