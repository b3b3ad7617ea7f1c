"""Reassignments: start, replacement, cancellation, and Kafka's codes for what is refused."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.partition_update import successor
from ottla.metadata.controller.reassignment import MOVING_REPLICAS_MAX, cancelled, started
from ottla.metadata.image import Image
from ottla.metadata.records import Partition, Topic
from ottla.metadata.values import BrokerState, Incarnation
from tests.support.metadata.sample_records import broker, partition, topic_id

ONE, TWO, THREE, FOUR = (Incarnation(number, 4 + number) for number in (1, 2, 3, 4))


def image_with(*gone: int, **fields: Any) -> Image:
    """A partition on brokers 1 and 2; there are brokers 3, 4 and 5, too."""
    image = Image()
    for broker_id in (1, 2, 3, 4, 5):
        state = BrokerState.GONE if broker_id in gone else BrokerState.UP
        image.apply(broker(broker_id, 4 + broker_id, state=state))
    image.apply(Topic("orders", topic_id(1)))
    image.apply(partition(**{"replicas": (1, 2), **fields}))
    return image


def only(image: Image) -> Partition:
    (present,) = image.partitions(topic_id(1))
    return present


def start(image: Image, *target: int, may_change_factor: bool = True) -> Partition:
    after = started(image, only(image), target, may_change_factor=may_change_factor)
    if after is not only(image):
        image.apply(after)
    return after


def cancel(image: Image) -> Partition:
    image.apply(cancelled(image, only(image)))
    return only(image)


def replicas(after: Partition) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return after.replicas, after.adding, after.removing


def start_refusal(image: Image, *target: int, **more: Any) -> ErrorCode:
    with pytest.raises(PeerError) as refused:
        start(image, *target, **more)
    assert str(refused.value)
    return refused.value.code


def test_a_start_adds_the_new_replicas_and_keeps_the_others_until_they_are_in_sync() -> None:
    after = start(image_with(), 3, 2)
    assert replicas(after) == ((3, 2, 1), (3,), (1,))
    assert (after.isr, after.leader, after.leader_epoch) == ((ONE, TWO), ONE, 0)
    assert after.partition_epoch == 1


def test_a_target_that_is_reached_already_changes_nothing() -> None:
    image = image_with()
    assert start(image, 1, 2) is only(image)


def test_another_order_is_reached_at_once() -> None:
    after = start(image_with(), 2, 1)
    assert (replicas(after), after.leader) == (((2, 1), (), ()), ONE)


def test_fewer_replicas_are_reached_at_once_and_another_one_leads() -> None:
    after = start(image_with(), 2)
    assert replicas(after) == ((2,), (), ())
    assert (after.isr, after.leader, after.leader_epoch) == ((TWO,), TWO, 1)


def test_fewer_replicas_wait_until_enough_of_them_are_in_sync() -> None:
    image = image_with(2, isr=(ONE,), elr=(TWO,))
    after = start(image, 2)
    assert replicas(after) == ((2, 1), (), (1,))
    assert (after.isr, after.leader, after.elr) == ((ONE,), ONE, (TWO,))


def test_a_dead_replica_may_stay_while_another_moves() -> None:
    assert replicas(start(image_with(2), 3, 2)) == ((3, 2, 1), (3,), (1,))


def test_a_second_target_replaces_the_first() -> None:
    image = image_with()
    start(image, 3, 4)
    after = start(image, 4, 5)
    assert replicas(after) == ((4, 5, 1, 2), (4, 5), (1, 2))
    back = start(image, 1, 2)
    assert (replicas(back), back.originals) == (((1, 2), (), ()), ())


def join(image: Image, *members: Incarnation) -> None:
    """The leader has put these into the ISR; the reassignment is not complete."""
    before = only(image)
    image.apply(successor(before, replace(before, isr=before.isr + members)))


def test_a_replica_that_a_replaced_target_has_brought_into_sync_stays_until_the_end() -> None:
    """It may be needed: it has all committed records."""
    image = image_with()
    start(image, 3, 4)
    join(image, THREE)
    after = start(image, 4, 5)
    assert replicas(after) == ((4, 5, 3, 1, 2), (4, 5), (3, 1, 2))
    assert after.originals == (1, 2)


def test_the_cancellation_of_a_replaced_target_goes_back_to_the_true_originals() -> None:
    image = image_with()
    start(image, 3, 4)
    join(image, THREE)
    start(image, 5, 2)
    after = cancel(image)
    assert replicas(after) == ((1, 2), (), ())
    assert (after.originals, after.isr) == ((), (ONE, TWO))


def test_a_cancellation_restores_the_order_and_so_the_preferred_leader() -> None:
    image = image_with()
    start(image, 2, 3)
    assert replicas(cancel(image))[0] == (1, 2)


def test_a_cancellation_without_recorded_originals_takes_those_that_are_not_new() -> None:
    """As in records of earlier versions."""
    image = image_with(replicas=(3, 2, 1), adding=(3,), removing=(1,))
    assert replicas(cancel(image))[0] == (2, 1)


def test_replaced_targets_do_not_add_up_without_a_limit() -> None:
    image = image_with(isr=(ONE, TWO))
    for broker_id in range(6, 20):
        image.apply(broker(broker_id, 4 + broker_id))
    start(image, *range(3, 9))
    join(image, *(Incarnation(number, 4 + number) for number in range(3, 8)))
    start(image, *range(9, 14))
    assert len(only(image).replicas) == MOVING_REPLICAS_MAX
    code = start_refusal(image, *range(9, 15))
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_replica_that_may_have_lost_records_is_not_dropped_by_another_target() -> None:
    """It may be the only one with some of them."""
    image = image_with(
        replicas=(3, 4, 1, 2),
        adding=(3, 4),
        removing=(1, 2),
        originals=(1, 2),
        leader=None,
        isr=(),
        unclean=(3, 1),
    )
    assert replicas(start(image, 5, 2)) == ((5, 2, 3, 1), (5,), (3, 1))


@pytest.mark.parametrize("target", [(), (3, 3), (9,), (1, 2, 3, 4, 5, 6, 7)])
def test_an_impossible_target_is_refused(target: tuple[int, ...]) -> None:
    assert start_refusal(image_with(), *target) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_a_broker_that_is_down_gets_no_new_replica() -> None:
    assert start_refusal(image_with(3), 3, 2) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_the_replication_factor_of_the_originals_stays_unless_it_may_change() -> None:
    image = image_with()
    code = start_refusal(image, 3, may_change_factor=False)
    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    start(image, 3, 4, may_change_factor=False)
    assert replicas(start(image, 5, 4, may_change_factor=False))[1] == (5, 4)


def test_a_cancellation_restores_the_originals() -> None:
    image = image_with(
        replicas=(3, 1, 2), adding=(3,), removing=(2,), isr=(THREE, ONE, TWO), leader=THREE
    )
    after = cancel(image)
    assert replicas(after) == ((1, 2), (), ())
    assert (after.isr, after.leader, after.leader_epoch) == ((ONE, TWO), ONE, 1)


def test_a_cancellation_drops_new_replicas_from_the_elr_and_the_unclean() -> None:
    image = image_with(
        *(3, 2),
        replicas=(3, 4, 1, 2),
        adding=(3, 4),
        removing=(1, 2),
        isr=(ONE,),
        elr=(THREE, TWO),
        unclean=(4,),
    )
    after = cancel(image)
    assert (after.isr, after.elr, after.unclean) == ((ONE,), (TWO,), ())


def test_a_cancellation_without_an_original_in_sync_is_refused() -> None:
    image = image_with(replicas=(3, 1, 2), adding=(3,), removing=(2,), isr=(THREE,), leader=THREE)
    with pytest.raises(PeerError) as refused:
        cancel(image)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_nothing_is_cancelled_if_nothing_moves() -> None:
    with pytest.raises(PeerError) as refused:
        cancel(image_with())
    assert refused.value.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
