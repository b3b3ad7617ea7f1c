"""The leader's way to append, and what a partition decides about it."""

import errno
from dataclasses import replace

import pytest

from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.replication.append.appender import ACKS_ALL, RefusedByLog
from ottla.replication.replica import Replica
from tests.support.broker.produce_and_fetch import NOW_MS, batch
from tests.support.replication.partitions import ME, OTHER, RULES, Partitions


def refusal(partitions: Partitions, replica: Replica, sent: bytearray, acks: int = 1) -> PeerError:
    with pytest.raises(PeerError) as caught:
        partitions.appender.append(
            replica, memoryview(sent), acks=acks, transactional_id_given=False, now_ms=NOW_MS
        )
    return caught.value


def test_a_log_is_made_at_the_first_append_and_offsets_go_on_from_there() -> None:
    partitions = Partitions()
    replica = partitions.create()
    assert replica.log is None
    first = partitions.append(replica, b"a", b"b")
    second = partitions.append(replica, b"c")
    assert (first.first_offset, first.committed_offset, first.record_count) == (0, 2, 2)
    assert (second.first_offset, second.committed_offset, second.record_count) == (2, 3, 1)
    assert (replica.high_watermark, replica.end_offset) == (3, 3)


def test_acks_all_needs_enough_in_sync_and_other_acks_do_not() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER), min_isr=2)
    partitions.change(replica, isr=(ME,))
    error = refusal(partitions, replica, batch(), ACKS_ALL)
    assert error.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert partitions.append(replica).first_offset == 0
    assert replica.high_watermark == 0, "it stands still while too few are in sync"


def test_only_the_leader_appends() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER), leader=OTHER)
    assert refusal(partitions, replica, batch()).code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.log is None


def test_a_batch_of_another_leader_epoch_is_refused_and_nothing_is_written() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER))
    partitions.change(replica, leader=OTHER)
    partitions.change(replica, leader=ME)
    assert replica.partition.leader_epoch == 2

    def append(expected_leader_epoch: int) -> int:
        return partitions.appender.append(
            replica,
            memoryview(batch()),
            acks=1,
            transactional_id_given=False,
            now_ms=NOW_MS,
            expected_leader_epoch=expected_leader_epoch,
        ).leader_epoch

    for other in (0, 1, 3):
        with pytest.raises(PeerError) as caught:
            append(other)
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert replica.log is None
    assert append(2) == 2


def test_a_keyless_record_in_a_compacted_topic_is_named_with_the_start_of_the_log() -> None:
    rules = replace(RULES, admission=replace(RULES.admission, compacted=True))
    partitions = Partitions(rules)
    replica = partitions.create()
    error = refusal(partitions, replica, batch(b"a", b"b"))
    assert isinstance(error, RefusedByLog)
    assert error.code is ErrorCode.INVALID_RECORD
    assert [fault.number for fault in error.record_faults] == [0, 1]
    assert error.start_offset == 0
    assert partitions.append(replica, b"a", key=b"k").first_offset == 0


def test_a_full_disk_and_a_broken_one_are_the_disks_fault() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica)
    partitions.replicas.directories.full["/data"] = "too little is left"
    assert refusal(partitions, replica, batch()).code is ErrorCode.KAFKA_STORAGE_ERROR
    partitions.replicas.directories.full.clear()
    partitions.disk.faults.fail_next_write("*.log", error=errno.EIO)
    assert refusal(partitions, replica, batch()).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refusal(partitions, replica, batch()).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert replica.high_watermark == 1


def test_a_partition_whose_directory_cannot_be_used_is_the_disks_fault_too() -> None:
    partitions = Partitions()
    replica = partitions.create()
    (directory,) = partitions.replicas.directories.directories
    directory.unusable[replica.name] = StorageError("damaged")
    assert refusal(partitions, replica, batch()).code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_duplicate_moves_nothing_and_wakes_nobody() -> None:
    partitions = Partitions()
    replica = partitions.create()
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
    first = partitions.append(replica, b"a", **fields)
    counted: list[int] = []

    class Listening:
        def count(self, amount: int) -> None:
            counted.append(amount)

        def wake(self) -> None:
            counted.append(0)

    replica.waiting.enter(Listening())
    again = partitions.append(replica, b"a", **fields)
    assert (again.first_offset, again.record_count) == (first.first_offset, 0)
    assert (counted, replica.end_offset) == ([], 1)
    partitions.append(replica, b"b")
    assert counted == [len(batch(b"b"))]


def test_a_new_leader_knows_its_end_once_all_of_the_old_one_is_committed() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER))
    partitions.append(replica)
    partitions.change(replica, leader=OTHER)
    partitions.change(replica, leader=ME)
    partition = replica.partition
    assert (partition.epoch_start_offset, partition.high_watermark) == (1, 0)
    assert not partition.is_committed_to_epoch
    partitions.change(replica, isr=(ME,))
    assert partition.is_committed_to_epoch
