"""The oracle tells a cluster that keeps its committed records from one that does not."""

from dataclasses import replace

import pytest

from ottla.metadata.records import Partition, Topic, TopicDeleted
from ottla.metadata.values import Incarnation
from ottla.protocol.batch import read_header
from ottla.protocol.primitives import Uuid
from tests.sim.replication.first_epochs import FirstEpochs
from tests.sim.replication.ghost import GhostPartition, check_producers
from tests.sim.replication.losses import Losses
from tests.sim.replication.stored_batches import StoredBatch, batches_in
from tests.support.broker.produce_and_fetch import batch

TOPIC_ID = Uuid(b"0123456789abcdef")
KEY = TOPIC_ID, 0
ONE, TWO, THREE = Incarnation(1, 10), Incarnation(2, 11), Incarnation(3, 12)
RECORD = Partition(
    topic_id=TOPIC_ID,
    index=0,
    replicas=(1, 2, 3),
    leader=ONE,
    leader_epoch=4,
    isr=(ONE, TWO, THREE),
    min_isr=2,
    partition_epoch=7,
)


def stored(offset: int, epoch: int, *values: bytes, **fields: int) -> StoredBatch:
    content = batch(*values, **fields)
    content[0:8] = offset.to_bytes(8, "big")
    content[12:16] = epoch.to_bytes(4, "big")
    return StoredBatch(read_header(content), bytes(content))


# The ghost copy


def test_two_batches_at_one_offset_of_one_epoch_are_found() -> None:
    ghost = GhostPartition("events-0")
    assert ghost.write(stored(5, 1, b"a", b"b")) is None
    assert ghost.write(stored(5, 1, b"a", b"b")) is None
    assert ghost.write(stored(5, 2, b"c")) is None
    assert "offset 6 of leader epoch 1" in (ghost.write(stored(6, 1, b"x")) or "")


def test_a_committed_record_that_changes_is_found() -> None:
    ghost = GhostPartition("events-0")
    ghost.write(stored(0, 1, b"a"))
    ghost.write(stored(0, 2, b"b"))
    assert ghost.commit(0, 1, committed_in=1) is None
    assert ghost.commit(0, 1, committed_in=3) is None
    assert "is committed again in 2" in (ghost.commit(0, 2, committed_in=3) or "")
    assert "nobody wrote offset 1" in (ghost.commit(1, 1, committed_in=3) or "")


def test_a_later_leader_without_a_committed_record_is_found() -> None:
    ghost = GhostPartition("events-0")
    first, second, other = stored(0, 1, b"a"), stored(1, 1, b"b"), stored(1, 2, b"c")
    for each in (first, second, other):
        ghost.write(each)
    ghost.commit(0, 1, committed_in=1)
    ghost.commit(1, 1, committed_in=3)
    assert ghost.check_has_committed([first, second], 0, 4) is None
    assert "is not there" in (ghost.check_has_committed([first], 0, 4) or "")
    assert "is another record" in (ghost.check_has_committed([first, other], 0, 4) or "")
    # An earlier leader, which hears of its epoch late, and a log that starts later.
    assert ghost.check_has_committed([first], 0, 2) is None
    assert ghost.check_has_committed([second], 1, 4) is None
    ghost.excuse()
    assert ghost.check_has_committed([], 0, 4) is None


def test_a_sequence_number_that_comes_twice_is_found() -> None:
    once = stored(0, 1, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    next_ = stored(1, 1, b"b", producer_id=7, producer_epoch=0, base_sequence=1)
    again = stored(2, 2, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    plain = stored(3, 2, b"a")
    assert check_producers("events-0", [once, next_, plain, plain]) is None
    assert "(7, 0, 0) are there twice" in (check_producers("events-0", [once, next_, again]) or "")


def test_batches_are_read_up_to_the_first_torn_one() -> None:
    whole, torn = stored(0, 1, b"a"), stored(1, 1, b"b")
    assert list(batches_in(whole.content + torn.content)) == [whole, torn]
    assert list(batches_in(whole.content + torn.content[:-1])) == [whole]
    assert list(batches_in(whole.content + bytes(100))) == [whole]


# What is excused


def test_a_partition_is_excused_when_min_isr_replicas_have_lost_power() -> None:
    losses = Losses()
    losses.recorded(RECORD)
    assert losses.power_lost(1, zxid=20) == []
    assert losses.is_loser(KEY, 1)
    assert losses.power_lost(1, zxid=21) == []
    assert losses.power_lost(2, zxid=22) == [KEY]
    assert losses.excuses(KEY) == 1


def test_a_replica_that_is_back_in_the_isr_is_no_loser() -> None:
    losses = Losses()
    losses.recorded(RECORD)
    losses.power_lost(1, zxid=20)
    # The incarnation that lost power, in a record that comes late.
    losses.recorded(replace(RECORD, partition_epoch=8))
    assert losses.is_loser(KEY, 1)
    back = Incarnation(1, 25)
    losses.recorded(replace(RECORD, leader=TWO, isr=(back, TWO), partition_epoch=9))
    assert not losses.is_loser(KEY, 1)
    assert losses.power_lost(2, zxid=30) == []


def test_a_replica_that_nobody_relies_on_excuses_nothing() -> None:
    losses = Losses()
    losses.recorded(replace(RECORD, isr=(ONE, TWO)))
    assert losses.power_lost(3, zxid=20) == []
    assert not losses.is_loser(KEY, 3)
    losses.recorded(replace(RECORD, isr=(ONE,), elr=(TWO,), unclean=(3,), partition_epoch=8))
    assert losses.power_lost(3, zxid=21) == []
    assert losses.power_lost(2, zxid=22) == [KEY]


@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 1)])
def test_the_smallest_min_isr_so_far_counts(first: int, then: int) -> None:
    losses = Losses()
    losses.recorded(replace(RECORD, min_isr=first))
    losses.recorded(replace(RECORD, min_isr=then, partition_epoch=8))
    assert losses.power_lost(1, zxid=20) == [KEY]


def test_leaders_up_to_the_epoch_of_a_loss_may_have_what_is_lost_and_later_ones_may_not() -> None:
    losses = Losses()
    losses.recorded(RECORD)
    losses.power_lost(1, zxid=20)
    assert not losses.may_be_lost(KEY, 4)
    losses.power_lost(2, zxid=21)
    assert [losses.may_be_lost(KEY, epoch) for epoch in (-1, 3, 4, 5)] == [True, True, True, False]
    assert not losses.may_be_lost((TOPIC_ID, 1), 4)


def test_a_loser_that_is_no_replica_any_more_does_not_count() -> None:
    losses = Losses()
    losses.recorded(RECORD)
    losses.power_lost(3, zxid=20)
    moved = replace(RECORD, replicas=(1, 2), isr=(ONE, TWO), partition_epoch=8)
    losses.recorded(moved)
    assert not losses.is_loser(KEY, 3)
    assert losses.power_lost(1, zxid=21) == []


def test_an_older_record_changes_nothing() -> None:
    losses = Losses()
    losses.recorded(RECORD)
    losses.recorded(replace(RECORD, partition_epoch=6, isr=(ONE,)))
    assert losses.newest[KEY] is RECORD


def test_a_deleted_topic_has_nothing_to_lose() -> None:
    losses = Losses()
    losses.recorded(RECORD)
    losses.deleted(TOPIC_ID)
    losses.recorded(replace(RECORD, partition_epoch=8))
    assert losses.power_lost(1, zxid=20) == losses.power_lost(2, zxid=20) == []


def test_one_log_at_a_time_may_be_damaged_where_others_are_in_the_isr() -> None:
    losses = Losses()
    losses.recorded(replace(RECORD, isr=(ONE,), elr=(TWO, THREE)))
    assert not losses.may_be_damaged(KEY, 1)
    assert losses.may_be_damaged(KEY, 2)
    losses.damaged(KEY, 2, zxid=20)
    assert losses.is_loser(KEY, 2)
    assert not losses.may_be_damaged(KEY, 3)
    losses.recorded(replace(RECORD, isr=(ONE, Incarnation(2, 21)), partition_epoch=8))
    assert losses.may_be_damaged(KEY, 3)


# Names that are used again


def test_a_topic_that_begins_at_an_epoch_of_a_deleted_one_is_found() -> None:
    epochs = FirstEpochs()
    other_id = Uuid(b"fedcba9876543210")
    for record in (Topic("events", TOPIC_ID), RECORD, TopicDeleted(TOPIC_ID, "events")):
        assert epochs.why_wrong(record) is None
    assert epochs.why_wrong(Topic("events", other_id)) is None
    assert epochs.why_wrong(replace(RECORD, topic_id=other_id, leader_epoch=5)) is None
    reason = epochs.why_wrong(replace(RECORD, topic_id=other_id, leader_epoch=4))
    assert "has leader epoch 4, and a deleted topic of that name had 4" in (reason or "")
