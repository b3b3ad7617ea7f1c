"""AlterPartition: which ISR a leader may have, and Kafka's code for every refusal."""

from typing import Any

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.isr_changes import AskedIsr, altered
from ottla.metadata.image import Image
from ottla.metadata.records import Partition, Topic
from ottla.metadata.values import BrokerState, Incarnation
from tests.support.metadata.sample_records import broker, partition, topic_id

ONE, TWO, THREE = Incarnation(1, 5), Incarnation(2, 6), Incarnation(3, 7)
STARTING, UP, DRAINING, GONE = BrokerState


def image_with(*states: BrokerState, **fields: Any) -> Image:
    """One partition on three brokers, which are up unless a state is given."""
    image = Image()
    for broker_id, state in enumerate((*states, UP, UP, UP)[:3], start=1):
        image.apply(broker(broker_id, 4 + broker_id, state=state))
    image.apply(Topic("orders", topic_id(1)))
    image.apply(partition(**{"leader_epoch": 4, "partition_epoch": 8, **fields}))
    return image


def ask(image: Image, *isr: Incarnation, requester: Incarnation = ONE, **fields: Any) -> Partition:
    """What the leader gets; the image accepts it."""
    asked = AskedIsr(topic_id(1), 0, leader_epoch=4, partition_epoch=8, isr=isr)
    before = image.partition(topic_id(1), 0)
    after = altered(image, requester, asked._replace(**fields))
    if after is not before:
        image.apply(after)
    return after


def refusal(image: Image, *isr: Incarnation, **fields: Any) -> ErrorCode:
    before = image.snapshot()
    with pytest.raises(PeerError) as refused:
        ask(image, *isr, **fields)
    assert str(refused.value)
    assert image.snapshot() == before
    return refused.value.code


# --- changes ----------------------------------------------------------------------------------


def test_a_replica_joins_in_replica_order_and_the_leader_stays() -> None:
    after = ask(image_with(unclean=(3,)), THREE, TWO, ONE)
    assert (after.isr, after.unclean) == ((ONE, TWO, THREE), ())
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (ONE, 4, 9)


def test_the_same_isr_changes_nothing() -> None:
    image = image_with()
    assert ask(image, ONE, TWO) is image.partition(topic_id(1), 0)


def test_a_shrink_below_min_isr_makes_the_leaving_eligible() -> None:
    after = ask(image_with(), ONE)
    assert (after.isr, after.elr, after.partition_epoch) == ((ONE,), (TWO,), 9)


def test_a_shrink_that_leaves_enough_makes_nobody_eligible() -> None:
    after = ask(image_with(isr=(ONE, TWO, THREE)), ONE, THREE)
    assert (after.isr, after.elr) == ((ONE, THREE), ())


def test_reaching_min_isr_empties_the_elr_whoever_joins() -> None:
    assert ask(image_with(isr=(ONE,), elr=(TWO,)), ONE, THREE).elr == ()
    assert ask(image_with(isr=(ONE,), elr=(TWO,)), ONE, TWO).elr == ()


def test_a_replica_that_joins_a_small_isr_is_eligible_no_longer_and_the_others_stay() -> None:
    image = image_with(isr=(ONE,), elr=(TWO, THREE), min_isr=3)
    after = ask(image, ONE, THREE)
    assert (after.isr, after.elr) == ((ONE, THREE), (TWO,))


def test_min_isr_counts_as_the_number_of_replicas_at_most() -> None:
    image = image_with(replicas=(1, 2), isr=(ONE,), elr=(TWO,), min_isr=3)
    assert ask(image, ONE, TWO).elr == ()


def test_a_draining_leader_yields_to_the_replica_that_joins() -> None:
    after = ask(image_with(DRAINING, isr=(ONE,), elr=(TWO,)), ONE, TWO)
    assert (after.leader, after.leader_epoch, after.partition_epoch) == (TWO, 5, 9)
    assert (after.isr, after.elr) == ((TWO,), (ONE,))


def test_an_isr_that_is_large_enough_only_with_a_draining_leader_does_not_empty_the_elr() -> None:
    after = ask(image_with(DRAINING, isr=(ONE,), elr=(TWO,)), ONE, THREE)
    assert (after.leader, after.isr, after.elr) == (THREE, (THREE,), (TWO, ONE))


def test_a_lost_replica_that_the_leader_drops_does_not_become_eligible() -> None:
    """Its broker has registered without inheriting; the partition's update is still due."""
    image = image_with()
    image.apply(broker(2, 11))
    after = ask(image, ONE)
    assert (after.isr, after.elr, after.unclean) == ((ONE,), (), (2,))


# --- refusals ---------------------------------------------------------------------------------


def test_the_codes_of_stale_and_mistaken_leaders() -> None:
    image = image_with()
    assert refusal(image, ONE, requester=Incarnation(1, 4)) is ErrorCode.STALE_BROKER_EPOCH
    assert refusal(image, ONE, requester=Incarnation(9, 5)) is ErrorCode.STALE_BROKER_EPOCH
    assert refusal(image_with(GONE), ONE) is ErrorCode.STALE_BROKER_EPOCH
    assert refusal(image, ONE, topic_id=topic_id(2)) is ErrorCode.UNKNOWN_TOPIC_ID
    assert refusal(image, ONE, partition=1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(image, ONE, partition=-1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(image, ONE, leader_epoch=3) is ErrorCode.FENCED_LEADER_EPOCH
    assert refusal(image, ONE, leader_epoch=5) is ErrorCode.NOT_CONTROLLER
    assert refusal(image, ONE, partition_epoch=9) is ErrorCode.NOT_CONTROLLER
    assert refusal(image, ONE, partition_epoch=7) is ErrorCode.INVALID_UPDATE_VERSION
    assert refusal(image, TWO, requester=TWO) is ErrorCode.INVALID_REQUEST


def test_the_codes_of_an_isr_that_cannot_be() -> None:
    image = image_with(replicas=(1, 2))
    assert refusal(image) is ErrorCode.INVALID_REQUEST
    assert refusal(image, TWO) is ErrorCode.INVALID_REQUEST
    assert refusal(image, ONE, ONE) is ErrorCode.INVALID_REQUEST
    assert refusal(image, ONE, THREE) is ErrorCode.INVALID_REQUEST
    assert refusal(image, Incarnation(1, 4)) is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize("state", [STARTING, DRAINING, GONE])
def test_only_brokers_that_are_up_are_in_sync(state: BrokerState) -> None:
    image = image_with(UP, UP, state)
    assert refusal(image, ONE, TWO, THREE) is ErrorCode.INELIGIBLE_REPLICA


@pytest.mark.parametrize("epoch", [-1, 0, 5, 7])
def test_a_replica_joins_under_its_current_epoch_only(epoch: int) -> None:
    image = image_with(isr=(ONE,))
    assert refusal(image, ONE, Incarnation(2, epoch)) is ErrorCode.INELIGIBLE_REPLICA


# --- reassignments ----------------------------------------------------------------------------


def moving(*states: BrokerState, **fields: Any) -> Image:
    """Broker 3 is to replace broker 1, the leader."""
    given = {"replicas": (3, 2, 1), "adding": (3,), "removing": (1,), **fields}
    return image_with(*states, **given)


def test_the_target_is_written_when_the_new_replicas_are_in_sync_and_the_leader_leaves() -> None:
    after = ask(moving(), ONE, TWO, THREE)
    assert (after.replicas, after.adding, after.removing) == ((3, 2), (), ())
    assert (after.isr, after.leader, after.leader_epoch) == ((THREE, TWO), THREE, 5)
    assert after.partition_epoch == 9


def test_a_reassignment_waits_for_enough_replicas_of_the_target() -> None:
    """Else the only copy of committed records besides the new one would be deleted."""
    after = ask(moving(isr=(ONE,)), ONE, THREE)
    assert (after.replicas, after.adding, after.isr) == ((3, 2, 1), (3,), (THREE, ONE))
    single = ask(moving(isr=(ONE,), min_isr=1), ONE, THREE)
    assert (single.replicas, single.isr, single.leader) == ((3, 2), (THREE,), THREE)


def test_a_reassignment_goes_on_while_a_new_replica_is_not_in_sync() -> None:
    after = ask(moving(isr=(ONE,)), ONE, TWO)
    assert (after.replicas, after.adding) == ((3, 2, 1), (3,))
