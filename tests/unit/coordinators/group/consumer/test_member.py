"""A member's epoch checks, and static members that leave and rejoin."""

from dataclasses import replace

import pytest

from ottla.coordinators.group.consumer.heartbeat_request import SpecialEpoch
from ottla.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    has_same_subscription,
    new_member,
    successor,
    temporarily_left,
)
from ottla.coordinators.group.records import Partitions
from ottla.errors import ErrorCode, PeerError
from tests.support.coordinators.consumer_clients import topic_id

LOGS = topic_id(1)


def member() -> ConsumerGroupMember:
    saved, current = new_member("g", "m")
    return ConsumerGroupMember(
        replace(saved, instance_id="i"),
        replace(
            current,
            epoch=5,
            previous_epoch=4,
            assigned={LOGS: (0, 1)},
            assigned_epochs={LOGS: (3, 5)},
            revoking={LOGS: (2,)},
            revoking_epochs={LOGS: (2,)},
        ),
    )


@pytest.mark.parametrize(
    ("epoch", "owned"), [(5, None), (SpecialEpoch.JOIN, {}), (4, {LOGS: (1,)}), (4, {})]
)
def test_the_current_epoch_a_join_and_a_lost_answer_are_accepted(
    epoch: int, owned: Partitions | None
) -> None:
    member().check_epoch(epoch, owned)


@pytest.mark.parametrize(("epoch", "owned"), [(6, {}), (3, {}), (4, None), (4, {LOGS: (2,)})])
def test_other_epochs_are_fenced(epoch: int, owned: Partitions | None) -> None:
    with pytest.raises(PeerError) as refused:
        member().check_epoch(epoch, owned)
    assert refused.value.code is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_static_member_that_left_temporarily_keeps_its_assigned_partitions() -> None:
    left = temporarily_left(member().current)
    assert ConsumerGroupMember(member().saved, left).has_left_temporarily
    assert (left.assigned, left.revoking) == ({LOGS: (0, 1)}, {})
    assert left.assigned_epochs == {LOGS: (SpecialEpoch.JOIN, SpecialEpoch.JOIN)}


def test_a_successor_joins_with_the_partitions_and_the_instance_id() -> None:
    after = successor(member(), "n")
    assert (after.member_id, after.current.member_id) == ("n", "n")
    assert after.saved.instance_id == "i"
    assert (after.current.epoch, after.current.assigned) == (SpecialEpoch.JOIN, {LOGS: (0, 1)})


def test_no_pattern_and_an_empty_one_are_the_same_subscription() -> None:
    saved = member().saved
    assert has_same_subscription(saved, replace(saved, regex=None))
    assert not has_same_subscription(saved, replace(saved, regex="x"))
    assert not has_same_subscription(saved, replace(saved, topics=("x",)))
