"""Offsets by time and by epoch, and moving a partition's start."""

import errno
from dataclasses import replace

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.replication.housekeeping.checkpointer import Checkpointer
from ottla.replication.housekeeping.delete_records import Deletion
from ottla.replication.housekeeping.delete_records import delete_before as delete_all_before
from ottla.replication.offsets import (
    NOT_FOUND,
    epoch_end,
    is_special,
    offset_found,
    search_by_time,
    special_offset,
)
from ottla.replication.replica import Replica
from ottla.storage.log.leader_epochs import UNKNOWN_END, EpochEnd
from ottla.storage.log.time_search import TimestampOffset
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.threads import SimThreads
from tests.support import time_searches
from tests.support.broker.produce_and_fetch import NOW_MS
from tests.support.replication.partitions import ME, OTHER, RULES, Partitions


# What ListOffsets answers, with all steps of a search at once.
def offset_at(replica: Replica, timestamp_ms: int, isolation: Isolation | None) -> TimestampOffset:
    if is_special(timestamp_ms):
        return special_offset(replica, timestamp_ms, isolation)
    found = time_searches.run(search_by_time(replica.log, timestamp_ms)) if replica.log else None
    return offset_found(replica, found, isolation)


UNCOMMITTED, COMMITTED = Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED


def delete_before(partitions: Partitions, replica: Replica, offset: int) -> int:
    """Where it starts then. PeerError."""
    checkpointer = Checkpointer(SimThreads(SimEntropy()))
    directories = partitions.replicas.directories
    deleting = delete_all_before([Deletion(replica, offset)], directories, checkpointer)
    (answer,) = run(deleting, clock=partitions.clock)
    if isinstance(answer, PeerError):
        raise answer
    return answer


def refused(replica: Replica, timestamp_ms: int, isolation: Isolation | None) -> ErrorCode:
    with pytest.raises(PeerError) as caught:
        offset_at(replica, timestamp_ms, isolation)
    return caught.value.code


def test_an_empty_partition_begins_and_ends_at_0_in_the_present_epoch() -> None:
    replica = Partitions().create()
    for special in (OffsetSpec.LATEST, OffsetSpec.EARLIEST, OffsetSpec.EARLIEST_LOCAL):
        assert offset_at(replica, special, UNCOMMITTED) == TimestampOffset(-1, 0, 0)
    for special in (
        OffsetSpec.MAX_TIMESTAMP,
        OffsetSpec.LATEST_TIERED,
        OffsetSpec.EARLIEST_PENDING_UPLOAD,
    ):
        assert offset_at(replica, special, UNCOMMITTED) == NOT_FOUND
    assert offset_at(replica, 0, UNCOMMITTED) == NOT_FOUND


def test_times_find_the_first_record_that_is_not_older() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, b"a", b"b", timestamp_ms=NOW_MS)
    partitions.append(replica, b"c", timestamp_ms=NOW_MS + 500)
    partitions.append(replica, b"d", timestamp_ms=NOW_MS + 100)
    assert offset_at(replica, 0, UNCOMMITTED) == TimestampOffset(NOW_MS, 0, 0)
    assert offset_at(replica, NOW_MS + 1, UNCOMMITTED) == TimestampOffset(NOW_MS + 1, 1, 0)
    assert offset_at(replica, NOW_MS + 2, UNCOMMITTED) == TimestampOffset(NOW_MS + 500, 2, 0)
    assert offset_at(replica, NOW_MS + 501, UNCOMMITTED) == NOT_FOUND
    largest = offset_at(replica, OffsetSpec.MAX_TIMESTAMP, UNCOMMITTED)
    assert largest == TimestampOffset(NOW_MS + 500, 2, 0)


def test_the_end_depends_on_who_asks() -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica, b"a", timestamp_ms=NOW_MS)
    partitions.append(
        replica,
        b"b",
        timestamp_ms=NOW_MS + 5,
        transactional=True,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
    )
    partitions.change(replica, replicas=(1, 2), isr=(ME, OTHER))
    partitions.append(replica, b"c", timestamp_ms=NOW_MS + 10)
    for isolation, end_offset in [(COMMITTED, 1), (UNCOMMITTED, 2), (None, 3)]:
        assert offset_at(replica, OffsetSpec.LATEST, isolation).offset == end_offset
        found = offset_at(replica, NOW_MS + 6, isolation)
        assert found.offset == (2 if isolation is None else -1), "only what may be read is found"
        largest = offset_at(replica, OffsetSpec.MAX_TIMESTAMP, isolation)
        assert largest.offset == (2 if isolation is None else -1)


def test_a_new_leader_does_not_tell_its_end_before_it_knows_it() -> None:
    partitions = Partitions()
    replica = partitions.create(isr=(ME, OTHER))
    partitions.append(replica, timestamp_ms=NOW_MS)
    partitions.change(replica, leader=OTHER)
    partitions.change(replica, leader=ME)
    assert refused(replica, OffsetSpec.LATEST, UNCOMMITTED) is ErrorCode.OFFSET_NOT_AVAILABLE
    assert refused(replica, NOW_MS, UNCOMMITTED) is ErrorCode.OFFSET_NOT_AVAILABLE
    assert offset_at(replica, OffsetSpec.EARLIEST, UNCOMMITTED).offset == 0
    assert offset_at(replica, OffsetSpec.LATEST, None).offset == 1
    partitions.change(replica, isr=(ME,))
    assert offset_at(replica, OffsetSpec.LATEST, UNCOMMITTED) == TimestampOffset(-1, 1, 2)


def test_epochs_end_where_the_next_one_begins() -> None:
    partitions = Partitions()
    replica = partitions.create()
    assert epoch_end(replica, 0) == EpochEnd(0, 0)
    assert epoch_end(replica, 1) == UNKNOWN_END
    partitions.append(replica, b"a", b"b")
    partitions.change(replica, leader=None, isr=())
    partitions.change(replica, leader=ME, isr=(ME,))
    partitions.append(replica, b"c")
    assert epoch_end(replica, 0) == EpochEnd(0, 2)
    assert epoch_end(replica, 1) == EpochEnd(0, 2)
    assert epoch_end(replica, 2) == EpochEnd(2, 3)
    assert epoch_end(replica, 3) == UNKNOWN_END
    assert epoch_end(replica, -1) == UNKNOWN_END


def test_records_are_deleted_up_to_the_high_watermark_and_no_further() -> None:
    partitions = Partitions()
    replica = partitions.create()
    for _ in range(4):
        partitions.append(replica)
    partitions.change(replica, replicas=(1, 2), isr=(ME, OTHER))
    partitions.append(replica)
    assert delete_before(partitions, replica, 2) == 2
    assert delete_before(partitions, replica, 1) == 2, "it does not go back"
    for offset in (5, 100, -2):
        with pytest.raises(PeerError) as caught:
            delete_before(partitions, replica, offset)
        assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert delete_before(partitions, replica, -1) == 4
    assert offset_at(replica, OffsetSpec.EARLIEST, UNCOMMITTED).offset == 4


def test_where_nothing_was_written_nothing_is_deleted() -> None:
    partitions = Partitions()
    replica = partitions.create()
    assert delete_before(partitions, replica, -1) == 0
    assert delete_before(partitions, replica, 0) == 0
    assert replica.log is None


def test_a_compacted_topic_and_the_brokers_own_lose_nothing() -> None:
    compacted = replace(RULES, retention=replace(RULES.retention, deletes=False))
    partitions = Partitions(compacted)
    with pytest.raises(PeerError) as caught:
        delete_before(partitions, partitions.create(), 0)
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    partitions = Partitions()
    with pytest.raises(PeerError) as caught:
        delete_before(partitions, partitions.create("__consumer_offsets"), 0)
    assert caught.value.code is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_start_that_cannot_be_made_durable_does_not_move(code: int) -> None:
    partitions = Partitions()
    replica = partitions.create()
    partitions.append(replica)
    partitions.disk.faults.fail_next("create", "*log-start-offset-checkpoint*", error=code)
    with pytest.raises(PeerError) as caught:
        delete_before(partitions, replica, 1)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert replica.start_offset == 0
    if code == errno.ENOSPC:
        assert delete_before(partitions, replica, 1) == 1, "there is room again"
    else:
        assert replica.log is not None
        assert replica.log.offline is not None, "with its directory"
