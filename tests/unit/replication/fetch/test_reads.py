"""What a consumer gets of one partition."""

from dataclasses import replace

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import (
    HEADER_BYTES,
    Marker,
    MarkerKind,
    Record,
    build,
    build_marker,
    read_header,
)
from ottla.protocol.isolation_level import Isolation
from ottla.replication.fetch.reads import ReadResult, read, redirect
from ottla.replication.replica import Replica
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_slice import FileSlice
from ottla.storage.log.leader_epochs import EpochEnd
from tests.support.broker.produce_and_fetch import NOW_MS, batch, values
from tests.support.replication.partitions import ME, OTHER, RULES, Partitions

UNCOMMITTED, COMMITTED = Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED
BATCH_BYTES = len(batch(b"value"))


def read_all(replica: Replica, offset: int = 0, isolation: Isolation = UNCOMMITTED) -> ReadResult:
    return read(replica, offset, bytes_max=1 << 20, isolation=isolation)


def contents(result: ReadResult) -> list[bytes | None]:
    return values(result.records.read()) if result.records else []


def code_of(replica: Replica, offset: int, **fields: int) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        read(replica, offset, bytes_max=1 << 20, isolation=UNCOMMITTED, **fields)
    return caught.value.code


def test_a_partition_that_was_never_written_to_is_empty_and_not_unknown() -> None:
    replica = Partitions().create()
    assert read_all(replica) == ReadResult(None, 0, 0, 0, None, is_caught_up=True)
    assert read_all(replica, isolation=COMMITTED).aborted == []
    assert code_of(replica, 1) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_offsets_are_out_of_range_exactly_outside_of_start_and_end() -> None:
    partitions = Partitions()
    replica = partitions.create()
    for _ in range(4):
        partitions.append(replica)
    assert replica.log is not None
    replica.log.advance_start(2)
    assert code_of(replica, 1) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert len(contents(read_all(replica, 2))) == 2
    assert read_all(replica, 4) == ReadResult(None, 4, 4, 2, None, is_caught_up=True)
    assert code_of(replica, 5) is ErrorCode.OFFSET_OUT_OF_RANGE
    assert code_of(replica, -1) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_nothing_is_read_past_the_high_watermark_though_its_offset_is_in_range() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER))
    partitions.append(replica)
    assert (replica.end_offset, replica.high_watermark) == (1, 0)
    assert read_all(replica, 0).records is None
    assert read_all(replica, 1).records is None
    assert code_of(replica, 2) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_wrong_leader_epoch_is_told_before_a_wrong_offset() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica)
    assert code_of(replica, 1_000, current_leader_epoch=1) is ErrorCode.UNKNOWN_LEADER_EPOCH
    partitions.change(replica, leader=None, isr=())
    partitions.change(replica, leader=ME, isr=(ME,))
    assert code_of(replica, 1_000, current_leader_epoch=1) is ErrorCode.FENCED_LEADER_EPOCH
    assert code_of(replica, 1_000, current_leader_epoch=2) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_who_does_not_lead_answers_nothing() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER), leader=OTHER)
    assert code_of(replica, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_from_the_middle_of_a_batch_the_whole_batch_is_read() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, b"a", b"b", b"c")
    partitions.append(replica, b"d")
    assert contents(read_all(replica, 1)) == [b"a", b"b", b"c", b"d"]
    assert contents(read_all(replica, 3)) == [b"d"]


def test_the_first_batch_of_a_reply_is_whole_and_another_partitions_must_fit() -> None:
    partitions = Partitions()
    replica = partitions.create()
    for _ in range(3):
        partitions.append(replica)
    for bytes_max, first, later in [
        (0, BATCH_BYTES, 0),
        (BATCH_BYTES - 1, BATCH_BYTES, 0),
        (BATCH_BYTES, BATCH_BYTES, BATCH_BYTES),
        (2 * BATCH_BYTES + 1, 2 * BATCH_BYTES + 1, 2 * BATCH_BYTES + 1),
    ]:
        for is_first, size in [(True, first), (False, later)]:
            result = read(replica, 0, bytes_max=bytes_max, isolation=UNCOMMITTED, is_first=is_first)
            assert result.size == size
            assert not result.is_caught_up


def test_an_open_transaction_holds_back_only_readers_of_what_is_committed() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, b"before")
    partitions.append(
        replica, b"open", transactional=True, producer_id=1, producer_epoch=0, base_sequence=0
    )
    partitions.append(replica, b"behind")
    assert contents(read_all(replica, isolation=UNCOMMITTED)) == [b"before", b"open", b"behind"]
    held_back = read_all(replica, isolation=COMMITTED)
    assert contents(held_back) == [b"before"]
    assert (held_back.high_watermark, held_back.last_stable_offset) == (3, 1)
    partitions.end_transaction(replica, MarkerKind.COMMIT, 1)
    assert read_all(replica, isolation=COMMITTED).last_stable_offset == 4


def aborted_log(partitions: Partitions, count: int) -> Replica:
    """So many aborted transactions, of producers 0, 1, 2...: each a record and its marker."""
    replica = partitions.create()
    for producer_id in range(count):
        partitions.append(
            replica,
            b"value",
            transactional=True,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )
        partitions.end_transaction(replica, MarkerKind.ABORT, producer_id)
    return replica


@pytest.mark.parametrize("segment_bytes", [1 << 30, 1_000])
def test_only_the_aborted_transactions_of_the_slice_are_listed(segment_bytes: int) -> None:
    rules = replace(RULES, log=LogConfig(segment_bytes=segment_bytes, index_interval_bytes=0))
    partitions = Partitions(rules)
    replica = aborted_log(partitions, 20)
    for offset in range(0, 40, 3):
        for bytes_max in (1, BATCH_BYTES, 3 * BATCH_BYTES, 9 * BATCH_BYTES, 1 << 20):
            result = read(replica, offset, bytes_max=bytes_max, isolation=COMMITTED)
            assert result.records is not None
            assert result.aborted is not None
            listed = [each.producer_id for each in result.aborted]
            inside = producers_in(result.records)
            assert listed[: len(inside)] == inside, (offset, bytes_max)
            # Before the tail the index says where the slice ends, and not to the batch.
            allowed = 0 if segment_bytes == 1 << 30 else 1
            assert len(listed) <= len(inside) + allowed


def producers_in(records: FileSlice) -> list[int]:
    """Those of every batch that begins in the slice, each once."""
    found: dict[int, None] = {}
    position, end = records.position, records.position + records.size
    while position < end:
        header = read_header(records.file.read_at(position, HEADER_BYTES))
        found[header.producer_id] = None
        position += header.size
    return list(found)


def test_nobody_who_reads_uncommitted_is_told_of_aborts() -> None:
    partitions = Partitions()
    replica = aborted_log(partitions, 2)
    assert read_all(replica).aborted is None
    assert len(read_all(replica, isolation=COMMITTED).aborted or []) == 2


def test_a_reader_whose_log_parted_from_this_one_is_told_where() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica)
    partitions.append(replica)
    partitions.change(replica, leader=None, isr=())
    partitions.change(replica, leader=ME, isr=(ME,))
    partitions.append(replica)

    def parted(offset: int, last_fetched_epoch: int) -> EpochEnd | None:
        result = read(
            replica,
            offset,
            bytes_max=1 << 20,
            isolation=UNCOMMITTED,
            last_fetched_epoch=last_fetched_epoch,
        )
        assert (result.records is None) == (result.diverging is not None or offset == 3)
        return result.diverging

    assert parted(2, 0) is None
    assert parted(3, 2) is None
    assert parted(3, 0) == EpochEnd(0, 2), "that epoch ended before"
    assert parted(9, 0) == EpochEnd(0, 2), "however far it thinks it has come"
    assert parted(2, 1) == EpochEnd(0, 2), "an epoch that never wrote here"
    assert code_of(replica, 2, last_fetched_epoch=5) is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_log_that_is_offline_is_a_fault_of_the_disk_and_not_empty() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica)
    assert replica.log is not None
    replica.log.abandon()
    for offset in (0, 1, 7):
        assert code_of(replica, offset) is ErrorCode.KAFKA_STORAGE_ERROR


# Consumers at a follower


def follower(partitions: Partitions, *, high_watermark: int) -> Replica:
    """A follower with four batches, which knows of this high watermark."""
    replica = partitions.create(isr=(ME, OTHER))
    partitions.change(replica, leader=OTHER)
    log = partitions.replicas.create_log(replica)
    for number in range(4):
        record = Record(number, NOW_MS, None, b"%d" % number)
        log.append_replicated(build([record], base_offset=number, leader_epoch=1))
    replica.partition.replicated(4, high_watermark)
    return replica


def read_at_follower(replica: Replica, offset: int, **fields: int) -> ReadResult:
    return read(
        replica, offset, bytes_max=1 << 20, isolation=UNCOMMITTED, may_follow=True, **fields
    )


def test_a_follower_serves_consumers_up_to_its_own_high_watermark() -> None:
    replica = follower(Partitions(), high_watermark=2)
    result = read_at_follower(replica, 0)
    assert contents(result) == [b"0", b"1"]
    assert (result.high_watermark, result.last_stable_offset) == (2, 2)
    waiting = read_at_follower(replica, 3)
    assert (contents(waiting), waiting.is_caught_up) == ([], True), "not committed here yet"
    with pytest.raises(PeerError) as caught:
        read_at_follower(replica, 5)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_serves_nobody_unless_it_may() -> None:
    replica = follower(Partitions(), high_watermark=4)
    assert code_of(replica, 0) is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize(
    ("epoch", "code"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
def test_a_follower_checks_the_leader_epoch_of_a_consumer(epoch: int, code: ErrorCode) -> None:
    replica = follower(Partitions(), high_watermark=4)
    assert contents(read_at_follower(replica, 3, current_leader_epoch=1)) == [b"3"]
    with pytest.raises(PeerError) as caught:
        read_at_follower(replica, 0, current_leader_epoch=epoch)
    assert caught.value.code is code


def test_a_follower_tells_read_committed_consumers_of_aborted_transactions() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER))
    partitions.change(replica, leader=OTHER)
    log = partitions.replicas.create_log(replica)
    of_producer = {"producer_id": 7, "producer_epoch": 0, "leader_epoch": 1}
    log.append_replicated(batch(b"a", transactional=True, base_sequence=0, **of_producer))
    marker = Marker(MarkerKind.ABORT, coordinator_epoch=0)
    log.append_replicated(build_marker(marker, timestamp_ms=NOW_MS, base_offset=1, **of_producer))

    def committed() -> ReadResult:
        return read(replica, 0, bytes_max=1 << 20, isolation=COMMITTED, may_follow=True)

    replica.partition.replicated(2, 1)
    assert (committed().records, committed().last_stable_offset) == (None, 0)
    replica.partition.replicated(2, 2)
    assert committed().last_stable_offset == 2
    assert [(each.producer_id, each.first_offset) for each in committed().aborted or ()] == [(7, 0)]


def test_a_redirected_consumer_gets_offsets_and_no_records() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica)
    assert redirect(replica, 2, -1) == ReadResult(
        None, 1, 1, 0, None, is_caught_up=False, preferred_read_replica=2
    )
    with pytest.raises(PeerError) as caught:
        redirect(replica, 2, 7)
    assert caught.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH
