"""The high watermark of a leader with followers, and the ISR that it asks for."""

from dataclasses import replace

from ottla.metadata import records
from ottla.metadata.values import Incarnation
from ottla.replication.follower_progress import LAG_TICKS
from ottla.replication.local_broker import LocalBroker
from ottla.replication.partition import Partition
from tests.support.replication.partitions import ME, OTHER, topic_id

THIRD = Incarnation(3, 30)


def record(
    *isr: Incarnation,
    min_isr: int = 2,
    partition_epoch: int = 0,
    leader: Incarnation | None = ME,
    leader_epoch: int = 0,
) -> records.Partition:
    return records.Partition(
        topic_id=topic_id(1),
        index=0,
        replicas=(ME.broker_id, OTHER.broker_id, THIRD.broker_id),
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        min_isr=min_isr,
        partition_epoch=partition_epoch,
    )


def leading(*isr: Incarnation, min_isr: int = 2, end_offset: int = 0) -> Partition:
    made = Partition(topic_id(1), 0, LocalBroker(ME.broker_id, "me", ME))
    made.assign(record(*isr, min_isr=min_isr), end_offset)
    return made


def test_the_high_watermark_is_the_least_log_end_of_the_isr() -> None:
    partition = leading(ME, OTHER, THIRD)
    assert not partition.appended(10)
    assert not partition.fetched(OTHER, 8, 0)
    assert partition.high_watermark == 0, "nothing is known of the third one"
    assert partition.fetched(THIRD, 4, 0)
    assert partition.high_watermark == 4
    assert not partition.fetched(OTHER, 10, 0)
    assert partition.fetched(THIRD, 10, 0)
    assert partition.high_watermark == 10


def test_a_replica_outside_of_the_isr_holds_nothing_back() -> None:
    partition = leading(ME, OTHER)
    partition.appended(10)
    assert partition.fetched(OTHER, 10, 0)
    assert not partition.fetched(THIRD, 3, 0)
    assert partition.high_watermark == 10


def test_it_stands_still_while_fewer_than_min_isr_are_in_sync() -> None:
    partition = leading(ME, OTHER, THIRD)
    partition.appended(5)
    partition.fetched(OTHER, 5, 0)
    partition.fetched(THIRD, 5, 0)
    partition.appended(9)
    partition.assign(record(ME, partition_epoch=1), 9)
    assert not partition.commits_alone
    assert not partition.appended(12)
    assert partition.high_watermark == 5
    partition.assign(record(ME, min_isr=1, partition_epoch=2), 12)
    assert partition.high_watermark == 12
    assert partition.appended(13)


def test_it_never_falls_by_a_fetch_or_a_record() -> None:
    partition = leading(ME, OTHER)
    partition.appended(10)
    partition.fetched(OTHER, 10, 0)
    assert not partition.fetched(OTHER, 3, 0)
    partition.assign(record(ME, OTHER, THIRD, partition_epoch=1), 10)
    assert partition.high_watermark == 10


def test_while_a_change_is_open_the_old_and_the_new_members_count() -> None:
    partition = leading(ME, OTHER)
    partition.appended(10)
    partition.fetched(OTHER, 10, 0)
    partition.fetched(THIRD, 10, 0)
    partition.isr_asked((ME, THIRD))
    partition.appended(20)
    assert not partition.fetched(OTHER, 20, 0), "the third one may have joined"
    assert partition.fetched(THIRD, 15, 0)
    assert partition.high_watermark == 15
    assert not partition.fetched(OTHER, 12, 0), "the other one may still be in the ISR"
    partition.fetched(THIRD, 20, 0)
    assert partition.high_watermark == 15
    partition.assign(record(ME, THIRD, partition_epoch=1), 20)
    assert partition.high_watermark == 20
    assert partition.asked_isr is None


def test_a_leader_that_asked_for_a_member_does_not_commit_alone() -> None:
    partition = leading(ME, min_isr=1)
    assert partition.appended(3)
    partition.isr_asked((ME, OTHER))
    assert not partition.appended(5)
    assert not partition.isr_refused((ME, THIRD)), "an answer to another request"
    assert partition.isr_refused((ME, OTHER))
    assert partition.high_watermark == 5
    assert partition.appended(6)


def test_progress_is_that_of_one_incarnation() -> None:
    restarted = Incarnation(OTHER.broker_id, OTHER.broker_epoch + 1)
    partition = leading(ME, OTHER)
    partition.appended(10)
    assert not partition.fetched(restarted, 10, 0), "it is not the one in the ISR"
    assert not partition.fetched(OTHER, 10, 0), "an old request that was late"
    assert partition.followers[OTHER.broker_id].incarnation == restarted
    assert partition.high_watermark == 0
    partition.assign(record(ME, restarted, partition_epoch=1), 10)
    assert partition.high_watermark == 10


def test_the_progress_of_an_earlier_leader_epoch_does_not_count() -> None:
    partition = leading(ME, OTHER)
    partition.appended(10)
    partition.fetched(OTHER, 10, 0)
    partition.assign(record(ME, OTHER, partition_epoch=1, leader=OTHER, leader_epoch=1), 10)
    assert partition.followers == {}
    partition.assign(record(ME, OTHER, partition_epoch=2, leader_epoch=2), 12)
    assert partition.high_watermark == 10
    partition.appended(14)
    assert partition.fetched(OTHER, 13, 0)
    assert partition.high_watermark == 13


def test_a_leader_that_resigns_forgets_its_followers() -> None:
    partition = leading(ME, OTHER)
    partition.isr_asked((ME, OTHER, THIRD))
    partition.appended(10)
    partition.resign()
    assert not partition.fetched(OTHER, 10, 0)
    assert (partition.high_watermark, partition.asked_isr) == (0, None)


def test_a_follower_lags_from_the_first_record_that_it_lacks() -> None:
    partition = leading(ME, OTHER)
    partition.appended(10)
    for _ in range(LAG_TICKS):
        partition.tick()
        assert partition.lag_due_offset == -1
    partition.appended(20)
    partition.tick()
    assert partition.lag_due_offset == 10, "what was there at the first tick"
    for _ in range(LAG_TICKS - 1):
        partition.tick()
        assert partition.lag_due_offset == 10
    partition.tick()
    assert partition.lag_due_offset == 20
    partition.assign(replace(record(ME, OTHER), leader_epoch=1, partition_epoch=1), 20)
    assert partition.lag_due_offset == -1, "a new leader gives its followers time"


def test_a_follower_takes_the_leaders_high_watermark_up_to_its_own_end() -> None:
    partition = leading(ME, OTHER)
    partition.assign(record(ME, OTHER, partition_epoch=1, leader=OTHER, leader_epoch=1), 5)
    assert partition.replicated(5, 9)
    assert partition.high_watermark == 5
    assert not partition.replicated(8, 4), "it does not fall"
    assert partition.replicated(8, 7)
    assert partition.high_watermark == 7
    partition.truncated(7)
    assert (partition.high_watermark, partition.end_offset) == (7, 7)
    partition.truncated(3)
    assert partition.high_watermark == 3, "only after an unclean election"
