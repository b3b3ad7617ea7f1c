"""Elections and reassignments, each applied to the image that it was decided on."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.partition_changes import Election, elected, is_moving, reassigned
from ottla.metadata.image import Image
from ottla.metadata.records import EpochFloor, Partition, Topic
from ottla.metadata.values import BrokerState, Incarnation, PartitionId
from tests.support.metadata.sample_records import broker, partition, topic_id

ONE, TWO, THREE = Incarnation(1, 5), Incarnation(2, 6), Incarnation(3, 7)
PREFERRED, UNCLEAN = Election.PREFERRED, Election.UNCLEAN


def image_with(up: tuple[int, ...] = (1, 2, 3), **fields: Any) -> Image:
    """One partition on three brokers, of which these are up."""
    image = Image()
    for broker_id in (1, 2, 3):
        state = BrokerState.UP if broker_id in up else BrokerState.GONE
        image.apply(broker(broker_id, 4 + broker_id, state=state))
    image.apply(EpochFloor(0))
    image.apply(Topic("orders", topic_id(1)))
    image.apply(partition(**fields))
    return image


def elect(image: Image, election: Election) -> Partition:
    changed = elected(image, "orders", 0, election)
    image.apply(changed)
    return changed


def refusal(image: Image, election: Election, topic: str = "orders", index: int = 0) -> ErrorCode:
    with pytest.raises(PeerError) as refused:
        elected(image, topic, index, election)
    assert str(refused.value)
    return refused.value.code


# --- elections --------------------------------------------------------------------------------


def test_the_preferred_replica_leads_again_once_it_is_in_sync() -> None:
    image = image_with(leader=TWO, isr=(TWO, ONE), leader_epoch=4, partition_epoch=9)
    changed = elect(image, PREFERRED)
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (ONE, 5, 10)
    assert changed.isr == (TWO, ONE)
    assert refusal(image, PREFERRED) == ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.parametrize(
    ("up", "isr"),
    [
        ((1, 2, 3), (TWO, THREE)),
        ((2, 3), (TWO, ONE)),
        # Its previous incarnation was in sync, this one is not.
        ((1, 2, 3), (TWO, Incarnation(1, 4))),
    ],
)
def test_a_preferred_replica_that_is_down_or_out_of_sync_is_not_elected(
    up: tuple[int, ...], isr: tuple[Incarnation, ...]
) -> None:
    image = image_with(up, leader=TWO, isr=isr)
    assert refusal(image, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE


def test_a_partition_with_a_leader_needs_no_unclean_election() -> None:
    assert refusal(image_with(leader=TWO), UNCLEAN) == ErrorCode.ELECTION_NOT_NEEDED


def test_an_unclean_election_prefers_an_in_sync_replica() -> None:
    image = image_with((2, 3), leader=None, isr=(ONE, THREE), elr=(TWO,))
    changed = elect(image, UNCLEAN)
    assert (changed.leader, changed.isr, changed.elr) == (THREE, (THREE,), (TWO, ONE))


def test_an_unclean_election_then_takes_an_eligible_leader_replica() -> None:
    image = image_with((2, 3), leader=None, isr=(), elr=(ONE, THREE), unclean=(2,))
    changed = elect(image, UNCLEAN)
    assert (changed.leader, changed.isr, changed.elr) == (THREE, (THREE,), (ONE,))
    assert changed.unclean == (2,)


@pytest.mark.parametrize("up", [(2, 3), ()])
def test_a_replica_that_may_have_lost_records_is_not_elected_without_its_log_end(
    up: tuple[int, ...],
) -> None:
    image = image_with(up, leader=None, isr=(ONE,), unclean=(3,))
    assert refusal(image, UNCLEAN) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_an_unclean_election_passes_over_a_replica_whose_log_is_offline() -> None:
    where = PartitionId(topic_id(1), 0)
    image = image_with(leader=None, isr=(ONE, TWO))
    image.apply(replace(image.brokers[1], offline=(where,)))
    assert elect(image, UNCLEAN).leader == TWO


@pytest.mark.parametrize(("topic", "index"), [("orders", 1), ("none", 0), ("orders", -1)])
def test_a_missing_partition_has_no_election(topic: str, index: int) -> None:
    code = refusal(image_with(), PREFERRED, topic, index)
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


# --- reassignments ----------------------------------------------------------------------------


def reassign(
    image: Image, target: tuple[int, ...] | None, index: int = 0, *, may_change_factor: bool = True
) -> Partition | None:
    return reassigned(image, "orders", index, target, may_change_factor=may_change_factor)


def reassign_refusal(image: Image, target: tuple[int, ...] | None, **more: Any) -> ErrorCode:
    with pytest.raises(PeerError) as refused:
        reassign(image, target, **more)
    assert str(refused.value)
    return refused.value.code


def test_a_reassignment_to_the_same_replicas_changes_nothing() -> None:
    assert reassign(image_with(), (1, 2, 3)) is None


def test_another_order_of_the_replicas_is_another_preferred_leader() -> None:
    image = image_with()
    changed = reassign(image, (2, 1, 3))
    assert changed is not None
    image.apply(changed)
    assert (changed.replicas, changed.leader, changed.partition_epoch) == ((2, 1, 3), ONE, 1)
    assert not is_moving(changed)
    assert elect(image, PREFERRED).leader == TWO


@pytest.mark.parametrize("target", [(), (1, 1, 2), (1, 2, 9)])
def test_a_target_that_cannot_be_reached_is_refused(target: tuple[int, ...]) -> None:
    assert reassign_refusal(image_with(), target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_replicas_move_until_they_are_cancelled() -> None:
    image = image_with(replicas=(1, 2))
    moving = reassign(image, (3, 2))
    assert moving is not None
    assert is_moving(moving)
    image.apply(moving)
    back = reassign(image, None)
    assert back is not None
    assert (back.replicas, is_moving(back)) == ((1, 2), False)


def test_the_number_of_replicas_stays_unless_it_may_change() -> None:
    code = reassign_refusal(image_with(), (1, 2), may_change_factor=False)
    assert code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_reassignment_that_is_not_in_progress_cannot_be_cancelled() -> None:
    code = reassign_refusal(image_with(), None)
    assert code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_missing_partition_is_not_reassigned() -> None:
    code = reassign_refusal(image_with(), (1, 2, 3), index=1)
    assert code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("moving", [{"adding": (3,)}, {"removing": (1,)}])
def test_a_partition_with_added_or_removed_replicas_is_moving(moving: dict[str, Any]) -> None:
    assert is_moving(partition(**moving))
    assert not is_moving(partition())
