from collections.abc import Callable

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata import records
from ottla.metadata.values import Incarnation
from ottla.replication.local_broker import LocalBroker
from ottla.replication.partition import NO_LEADER_EPOCH, Partition
from tests.support.replication.partitions import ME, OTHER, topic_id


def record(
    *,
    leader: Incarnation | None = ME,
    leader_epoch: int = 0,
    isr: tuple[Incarnation, ...] = (ME,),
    replicas: int | None = None,
    min_isr: int = 1,
) -> records.Partition:
    members = range(1, 1 + (len(isr) if replicas is None else replicas))
    return records.Partition(
        topic_id=topic_id(1),
        index=0,
        replicas=tuple(members),
        leader=leader,
        leader_epoch=leader_epoch,
        isr=isr,
        min_isr=min_isr,
        partition_epoch=0,
    )


def partition(assigned: records.Partition, end_offset: int = 0) -> Partition:
    made = Partition(topic_id(1), 0, LocalBroker(ME.broker_id, "me", ME))
    made.assign(assigned, end_offset)
    return made


def refusal(check: Callable[..., None], *args: int) -> ErrorCode:
    with pytest.raises(PeerError) as refused:
        check(*args)
    return refused.value.code


def test_a_leader_that_is_the_whole_isr_commits_what_it_appends() -> None:
    alone = partition(record(), 3)
    assert alone.high_watermark == 3
    assert alone.appended(5)
    assert alone.high_watermark == 5
    assert not alone.appended(5)


def test_the_high_watermark_stands_still_while_others_are_in_sync_or_too_few_are() -> None:
    shared = partition(record(isr=(ME, OTHER)))
    assert not shared.appended(5)
    too_few = partition(record(isr=(ME,), replicas=3, min_isr=2))
    assert not too_few.appended(5)
    assert (shared.high_watermark, too_few.high_watermark) == (0, 0)
    assert refusal(too_few.check_in_sync) is ErrorCode.NOT_ENOUGH_REPLICAS


def test_no_more_in_sync_replicas_are_asked_for_than_there_are() -> None:
    one = partition(record(min_isr=2))
    assert one.min_isr_in_force == 1
    one.check_in_sync()
    assert one.appended(1)


def test_a_new_leader_epoch_begins_at_the_log_end_offset() -> None:
    made = Partition(topic_id(1), 0, LocalBroker(ME.broker_id, "me", ME))
    assert made.assign(record(leader_epoch=4, isr=(ME, OTHER)), 7)
    assert not made.assign(record(leader_epoch=4, isr=(ME, OTHER)), 9), "the same epoch again"
    assert made.epoch_start_offset == 7
    assert not made.is_committed_to_epoch
    made.assign(record(leader_epoch=4), 9)
    assert made.is_committed_to_epoch


def test_only_the_leader_of_the_current_epoch_answers() -> None:
    leader = partition(record(leader_epoch=4))
    leader.check_leadership()
    leader.check_leadership(4)
    assert refusal(leader.check_leadership, 3) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(leader.check_leadership, 5) is ErrorCode.UNKNOWN_LEADER_EPOCH
    follower = partition(record(leader=OTHER, leader_epoch=4))
    assert refusal(follower.check_leadership, 4) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.resign()
    assert refusal(leader.check_leadership) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert NO_LEADER_EPOCH == -1


def test_a_follower_lags_by_the_committed_offsets_that_it_lacks() -> None:
    follower = partition(record(leader=OTHER, isr=(ME, OTHER)))
    assert follower.lag == 0
    follower.replicated(3, 10)
    assert follower.lag == 7
    follower.truncated(2)
    assert follower.lag == 8
    follower.replicated(12, 10)
    assert follower.lag == 0, "it has more than what is committed"


def test_a_leader_does_not_lag() -> None:
    leads = partition(record(leader=OTHER, isr=(ME, OTHER)))
    leads.replicated(3, 10)
    leads.assign(record(leader_epoch=1, isr=(ME, OTHER)), 3)
    assert leads.lag == 0


def test_a_followers_leader_epoch_is_checked_without_its_leadership() -> None:
    follower = partition(record(leader=OTHER, leader_epoch=4, isr=(ME, OTHER)))
    follower.check_leader_epoch(4)
    follower.check_leader_epoch(NO_LEADER_EPOCH)
    assert refusal(follower.check_leader_epoch, 3) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(follower.check_leader_epoch, 5) is ErrorCode.UNKNOWN_LEADER_EPOCH
