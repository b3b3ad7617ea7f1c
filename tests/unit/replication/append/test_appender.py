"""The leader's way to append, and what a partition decides about it."""

import errno
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import ErrorCode, PeerError, StorageError
from ottla.protocol.batch import MarkerKind, read_header
from ottla.replication.append.appender import ACKS_ALL, AppendResult, RefusedByLog
from ottla.replication.append.transaction_marker import TransactionMarker
from ottla.replication.append.verification_guards import VerificationGuard
from ottla.replication.replica import Replica
from ottla.storage.admission.work_budget import (
    UNCOUNTED_RECORDS_MAX,
    UNITS_PER_RECORD,
    WorkBudget,
)
from ottla.storage.log.joint_append import JointAppend
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


# Transaction markers

OPENS = {"transactional": True, "producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
COMMIT = TransactionMarker(5, 0, MarkerKind.COMMIT, coordinator_epoch=3)


def marker_refusal(
    partitions: Partitions, replica: Replica, marker: TransactionMarker = COMMIT, **fields: int
) -> ErrorCode:
    before = replica.end_offset
    with pytest.raises(PeerError) as caught:
        partitions.appender.append_marker(replica, marker, now_ms=NOW_MS, **fields)
    assert replica.end_offset == before
    return caught.value.code


class Waking:
    """Notes how it was told of a change."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def count(self, amount: int) -> None:
        self.told.append(f"{amount} bytes")

    def wake(self) -> None:
        self.told.append("woken")


def test_a_marker_ends_the_transaction_and_wakes_all_who_wait() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, b"a", **OPENS)
    assert (replica.high_watermark, replica.last_stable_offset) == (1, 0)
    committed, uncommitted = Waking(), Waking()
    replica.waiting.enter(committed, is_committed_only=True)
    replica.waiting.enter(uncommitted)
    partitions.append(replica, b"b", **{**OPENS, "base_sequence": 1})
    appended = partitions.appender.append_marker(replica, COMMIT, now_ms=NOW_MS)
    assert (appended.first_offset, appended.committed_offset, appended.is_settled) == (2, 3, True)
    assert (replica.high_watermark, replica.last_stable_offset) == (3, 3)
    assert committed.told == ["0 bytes", "woken"]
    assert uncommitted.told == [f"{len(batch(b'b', **OPENS))} bytes", "woken"]
    assert replica.log is not None
    entry = replica.log.producers.get(5)
    assert entry is not None
    assert (entry.has_open_transaction, entry.coordinator_epoch) == (False, 3)


def test_plain_bytes_wake_committed_readers_again_once_no_transaction_is_open() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, b"a", **OPENS)
    partitions.appender.append_marker(replica, COMMIT, now_ms=NOW_MS)
    committed = Waking()
    replica.waiting.enter(committed, is_committed_only=True)
    partitions.append(replica, b"b")
    assert committed.told == [f"{len(batch(b'b'))} bytes"]


def test_a_marker_of_a_producer_that_never_wrote_makes_the_log() -> None:
    partitions = Partitions()
    replica = partitions.create()
    appended = partitions.appender.append_marker(replica, COMMIT, now_ms=NOW_MS)
    assert (appended.first_offset, replica.last_stable_offset) == (0, 1)


def test_a_marker_needs_the_leader_its_epoch_and_enough_in_sync() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER), min_isr=2)
    partitions.append(replica, b"a", **OPENS)
    assert marker_refusal(partitions, replica, expected_leader_epoch=1) is (
        ErrorCode.NOT_LEADER_OR_FOLLOWER
    )
    partitions.change(replica, isr=(ME,))
    assert marker_refusal(partitions, replica) is ErrorCode.NOT_ENOUGH_REPLICAS
    partitions.change(replica, isr=(ME, OTHER))
    appended = partitions.appender.append_marker(
        replica, COMMIT, now_ms=NOW_MS, expected_leader_epoch=0
    )
    assert not appended.is_settled, "the other replica does not have it yet"
    partitions.change(replica, leader=OTHER)
    assert marker_refusal(partitions, replica) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_the_log_refuses_markers_of_old_producers_and_old_coordinators() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, b"a", **{**OPENS, "producer_epoch": 2})
    fenced = COMMIT._replace(producer_epoch=1)
    assert marker_refusal(partitions, replica, fenced) is ErrorCode.INVALID_PRODUCER_EPOCH
    current = COMMIT._replace(producer_epoch=2)
    bumping = current._replace(transaction_version=2)
    assert marker_refusal(partitions, replica, bumping) is ErrorCode.INVALID_PRODUCER_EPOCH
    partitions.appender.append_marker(replica, current, now_ms=NOW_MS)
    old = current._replace(coordinator_epoch=2)
    assert marker_refusal(partitions, replica, old) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_disk_below_its_reserve_takes_markers_and_a_broken_one_refuses_them() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, b"a", **OPENS)
    partitions.replicas.directories.full["/data"] = "too little is left"
    assert refusal(partitions, replica, batch()).code is ErrorCode.KAFKA_STORAGE_ERROR
    assert partitions.appender.append_marker(replica, COMMIT, now_ms=NOW_MS).first_offset == 1
    partitions.disk.faults.fail_next_write("*.log", error=errno.ENOSPC)
    assert marker_refusal(partitions, replica) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partitions.appender.append_marker(replica, COMMIT, now_ms=NOW_MS).first_offset == 2
    partitions.disk.faults.fail_next_write("*.log", error=errno.EIO)
    assert marker_refusal(partitions, replica) is ErrorCode.KAFKA_STORAGE_ERROR


def test_internal_topics_take_markers() -> None:
    partitions = Partitions()
    replica = partitions.create("__consumer_offsets")
    assert partitions.appender.append_marker(replica, COMMIT, now_ms=NOW_MS).first_offset == 0


def test_a_marker_invalidates_the_guard_of_its_producer_and_of_no_other() -> None:
    partitions = Partitions()
    replica = partitions.create()
    mine = replica.verifications.begin(5, 0, 0, 0)
    other = replica.verifications.begin(6, 0, 0, 0)
    partitions.disk.faults.fail_next_write("*.log", error=errno.ENOSPC)
    assert marker_refusal(partitions, replica) is ErrorCode.KAFKA_STORAGE_ERROR
    assert replica.verifications.is_valid(mine), "nothing was written"
    partitions.appender.append_marker(replica, COMMIT, now_ms=NOW_MS)
    assert not replica.verifications.is_valid(mine)
    assert replica.verifications.is_valid(other)


# Transactional batches of clients


def transactional(
    partitions: Partitions, replica: Replica, guard: VerificationGuard | None, **fields: int
) -> AppendResult:
    return partitions.appender.append(
        replica,
        memoryview(batch(b"a", **{**OPENS, **fields})),
        acks=1,
        transactional_id_given=True,
        now_ms=NOW_MS,
        guard=guard,
    )


def code_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        call()
    return caught.value.code


def test_a_transaction_begins_only_with_a_valid_guard() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica)
    guard = replica.verifications.begin(5, 0, 0, 0)
    error = ErrorCode.INVALID_TXN_STATE
    assert code_of(lambda: transactional(partitions, replica, None)) is error
    assert transactional(partitions, replica, guard).first_offset == 1
    replica.verifications.end(guard, is_retried=False)
    assert transactional(partitions, replica, None, base_sequence=1).first_offset == 2
    partitions.appender.append_marker(replica, COMMIT, now_ms=NOW_MS)
    assert code_of(lambda: transactional(partitions, replica, None, base_sequence=2)) is error
    assert code_of(lambda: transactional(partitions, replica, guard, base_sequence=2)) is error
    assert replica.end_offset == 4


def test_a_duplicate_and_a_fenced_epoch_need_no_guard() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, b"a", **{**OPENS, "producer_epoch": 1})
    marker = COMMIT._replace(producer_epoch=1)
    partitions.appender.append_marker(replica, marker, now_ms=NOW_MS)
    again = transactional(partitions, replica, None, producer_epoch=1)
    assert (again.first_offset, again.record_count) == (0, 0)
    fenced = code_of(lambda: transactional(partitions, replica, None, producer_epoch=0))
    assert fenced is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_guard_of_another_leader_epoch_is_refused() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER))
    guard = replica.verifications.begin(5, 0, 0, 0)
    partitions.change(replica, leader=OTHER)
    partitions.change(replica, leader=ME)
    refused = code_of(lambda: transactional(partitions, replica, guard))
    assert refused is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_an_unknown_producer_begins_at_the_lowest_sequence_that_waits() -> None:
    partitions = Partitions()
    replica = partitions.create()
    guard = replica.verifications.begin(5, 0, 3, 0)
    late = code_of(lambda: transactional(partitions, replica, guard, base_sequence=4))
    assert late is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert transactional(partitions, replica, guard, base_sequence=3).first_offset == 0
    assert transactional(partitions, replica, guard, base_sequence=4).first_offset == 1


def test_batches_of_open_transactions_are_joined_and_those_that_begin_one_are_not() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, b"a", **OPENS)
    partitions.append(replica, b"p", producer_id=6, producer_epoch=0, base_sequence=0)

    def joint(*sent: bytearray) -> object:
        batches = [(memoryview(each), read_header(each)) for each in sent]
        return partitions.appender.append_together(replica, batches, now_ms=NOW_MS)

    woken = Waking()
    replica.waiting.enter(woken, is_committed_only=True)
    following = batch(b"b", **{**OPENS, "base_sequence": 1})
    assert joint(batch(b"c"), following) is not None
    assert (replica.end_offset, woken.told) == (4, ["0 bytes"])
    begins = batch(b"d", **{**OPENS, "producer_id": 6, "base_sequence": 1})
    assert joint(batch(b"e"), begins) is None
    partitions.appender.append_marker(replica, COMMIT, now_ms=NOW_MS)
    assert joint(batch(b"e"), batch(b"f", **{**OPENS, "base_sequence": 2})) is None
    assert replica.end_offset == 5


# After two batches the log knows the room of its segment.
FIRST = (b"one", b"two")


def together(partitions: Partitions, replica: Replica, *sent: bytearray) -> JointAppend | None:
    batches = [(memoryview(each), read_header(each)) for each in sent]
    return partitions.appender.append_together(replica, batches, now_ms=NOW_MS)


def test_batches_are_joined_whatever_the_number_of_replicas() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER), min_isr=2)
    for value in FIRST:
        partitions.append(replica, value)
    appended = together(partitions, replica, batch(b"a"), batch(b"b", b"c"))
    assert appended is not None
    assert (appended.first_offsets, appended.record_count) == ([2, 3], 3)
    assert (replica.high_watermark, replica.end_offset) == (0, 5)
    replica.fetched_by(OTHER, 5, 0)
    assert replica.high_watermark == 5


def test_batches_beyond_the_budget_of_a_turn_are_not_joined() -> None:
    """They are checked in a thread then, as any other batch of so many records."""
    partitions = Partitions()
    replica = partitions.create()
    for value in FIRST:
        partitions.append(replica, value)
    many = batch(*[b""] * (UNCOUNTED_RECORDS_MAX + 1))
    partitions.appender._budget = WorkBudget(UNITS_PER_RECORD * 2 * UNCOUNTED_RECORDS_MAX)
    assert together(partitions, replica, batch(b"a"), many) is not None
    assert together(partitions, replica, batch(b"a"), many) is None
    assert together(partitions, replica, batch(b"a"), batch(b"b")) is not None
    assert replica.end_offset == 2 + 1 + UNCOUNTED_RECORDS_MAX + 1 + 2


@pytest.mark.parametrize("change", [{"isr": (ME,)}, {"leader": OTHER}])
def test_batches_that_acks_all_may_refuse_are_not_joined(change: dict[str, Any]) -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER), min_isr=2)
    for value in FIRST:
        partitions.append(replica, value)
    partitions.change(replica, **change)
    assert together(partitions, replica, batch(b"a"), batch(b"b")) is None
    assert replica.end_offset == 2


@pytest.mark.parametrize("is_joint", [False, True])
def test_an_append_that_commits_settles_all_that_it_passes(is_joint: bool) -> None:
    partitions = Partitions()
    replica = partitions.create()
    for value in FIRST:
        partitions.append(replica, value)
    settled: list[PeerError | None] = []
    replica.commits.wait(3, settled.append)
    replica.commits.wait(5, settled.append)
    if is_joint:
        assert together(partitions, replica, batch(b"a"), batch(b"b")) is not None
    else:
        partitions.append(replica, b"a")
    assert settled == [None]
    partitions.end_transaction(replica, MarkerKind.COMMIT, 5)
    if not is_joint:
        partitions.append(replica, b"a")
    assert settled == [None, None]
