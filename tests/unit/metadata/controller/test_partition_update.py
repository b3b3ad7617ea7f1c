"""What a partition must look like, given its brokers: every rule, and that it settles at once."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from ottla.metadata.controller.partition_update import (
    has_serving_leader,
    is_untouched,
    settled,
    successor,
    updated,
)
from ottla.metadata.image import Image
from ottla.metadata.records import Broker, Partition, Topic, check
from ottla.metadata.values import BrokerState, Incarnation, PartitionId
from tests.support.metadata.sample_records import broker, partition, topic_id

ONE, TWO, THREE = Incarnation(1, 5), Incarnation(2, 6), Incarnation(3, 7)
# The next incarnation of broker 1.
NEW = Incarnation(1, 9)
STARTING, UP, DRAINING, GONE = BrokerState
FIRST = PartitionId(topic_id(1), 0)


def three(*states: BrokerState) -> dict[int, Broker]:
    """Brokers 1, 2 and 3 under the epochs that partitions name; those not given are up."""
    padded = (*states, UP, UP, UP)[:3]
    return {
        number: broker(number, 4 + number, state=state)
        for number, state in enumerate(padded, start=1)
    }


def with_new(others: dict[int, Broker] | None = None, **fields: Any) -> dict[int, Broker]:
    """The brokers after the registration of broker 1's next incarnation."""
    fields = {"state": STARTING, **fields}
    return {**(others or three()), 1: broker(1, NEW.broker_epoch, **fields)}


def whole(**fields: Any) -> Partition:
    """All three replicas are in sync, broker 1 is the leader."""
    return partition(**{"isr": (ONE, TWO, THREE), **fields})


def after(before: Partition, brokers: dict[int, Broker]) -> Partition:
    """The update, which the image accepts, and which changes nothing if it is made twice."""
    done = updated(before, brokers)
    if done is not before:
        image = Image()
        image.apply(Topic("orders", before.topic_id))
        image.apply(before)
        image.apply(done)
    assert updated(done, brokers) is done
    return done


def changed(before: Partition, brokers: dict[int, Broker]) -> Partition:
    """The update, which loses nothing."""
    done = after(before, brokers)
    assert done.possible_loss_epoch is None
    return done


# --- nothing to do ----------------------------------------------------------------------------


@pytest.mark.parametrize("states", [(UP, UP, UP), (STARTING, UP, UP)])
def test_a_partition_whose_members_are_live_stays(states: tuple[BrokerState, ...]) -> None:
    before = whole()
    assert updated(before, three(*states)) is before


def test_a_replica_outside_of_the_isr_changes_nothing() -> None:
    before = partition(unclean=(3,))
    assert updated(before, three(UP, UP, GONE)) is before
    assert updated(before, three(UP, UP, DRAINING)) is before


# --- a broker is gone -------------------------------------------------------------------------


def test_a_follower_that_is_gone_leaves_an_isr_that_stays_large_enough() -> None:
    done = changed(whole(), three(UP, GONE, UP))
    assert done == whole(isr=(ONE, THREE), partition_epoch=1)


def test_the_next_replica_in_order_leads_if_the_leader_is_gone() -> None:
    before = whole(replicas=(1, 3, 2), isr=(TWO, ONE, THREE), leader_epoch=4, partition_epoch=8)
    done = changed(before, three(GONE))
    assert (done.leader, done.leader_epoch, done.partition_epoch) == (THREE, 5, 9)
    assert (done.isr, done.elr) == ((TWO, THREE), ())


def test_those_who_leave_a_too_small_isr_become_eligible_leader_replicas() -> None:
    done = changed(whole(), three(GONE, GONE, UP))
    assert (done.leader, done.isr, done.elr) == (THREE, (THREE,), (ONE, TWO))


def test_the_isr_may_become_empty_and_then_nobody_leads() -> None:
    done = changed(partition(elr=(THREE,), isr=(ONE,)), three(GONE, UP, GONE))
    assert (done.leader, done.leader_epoch) == (None, 1)
    assert (done.isr, done.elr) == ((), (THREE, ONE))


def test_min_isr_counts_as_the_number_of_replicas_at_most() -> None:
    """As for the high watermark: with both in the ISR records are committed."""
    two = {"replicas": (1, 2), "min_isr": 5}
    fewer = changed(partition(**two), three(GONE, UP))
    assert (fewer.leader, fewer.isr, fewer.elr) == (TWO, (TWO,), (ONE,))
    enough = changed(partition(elr=(), **two, isr=(ONE, TWO), leader=None), three())
    assert (enough.leader, enough.elr) == (ONE, ())


def test_a_member_without_any_broker_record_counts_as_gone() -> None:
    done = changed(whole(), {1: broker(1, 5), 3: broker(3, 7)})
    assert (done.isr, done.unclean) == ((ONE, THREE), ())


# --- a broker is back -------------------------------------------------------------------------


def test_an_inherited_membership_is_rewritten_and_the_restarted_leader_leads_a_new_epoch() -> None:
    done = changed(whole(), with_new(inherits=5))
    assert done == whole(isr=(NEW, TWO, THREE), leader=NEW, leader_epoch=1, partition_epoch=1)


def test_an_inherited_eligible_leader_replica_is_rewritten_and_leads() -> None:
    before = partition(leader=None, isr=(), elr=(TWO, ONE))
    done = changed(before, with_new(three(UP, GONE), inherits=5))
    assert (done.leader, done.isr, done.elr) == (NEW, (NEW,), (TWO,))


@pytest.mark.parametrize(("inherits", "also"), [(8, (5,)), (8, (3, 5)), (5, (3,))])
def test_all_inherited_epochs_count(inherits: int, also: tuple[int, ...]) -> None:
    done = changed(whole(), with_new(inherits=inherits, also_inherits=also))
    assert done.isr == (NEW, TWO, THREE)


@pytest.mark.parametrize("inherits", [None, 4, 6, 8])
def test_a_broker_that_does_not_inherit_exactly_this_epoch_is_unclean(
    inherits: int | None,
) -> None:
    done = changed(whole(), with_new(inherits=inherits))
    assert (done.leader, done.isr, done.elr, done.unclean) == (TWO, (TWO, THREE), (), (1,))
    eligible = changed(partition(isr=(TWO,), leader=TWO, elr=(ONE,)), with_new(inherits=inherits))
    assert (eligible.elr, eligible.unclean) == ((), (1,))


def test_a_damaged_log_is_unclean_and_the_others_of_the_broker_are_not() -> None:
    brokers = with_new(inherits=5, damaged=(FIRST,))
    assert changed(whole(), brokers).unclean == (1,)
    assert changed(whole(index=0, topic=2), brokers).isr == (NEW, TWO, THREE)


def test_a_lost_replica_is_unclean_even_if_too_few_remain() -> None:
    done = changed(partition(), with_new())
    assert (done.isr, done.elr, done.unclean) == ((TWO,), (), (1,))


def test_an_intact_broker_that_is_gone_again_is_rewritten_before_it_leaves() -> None:
    """Its partitions still name the epoch before the last: it is eligible, not unclean."""
    done = changed(partition(), with_new(inherits=5, state=GONE))
    assert (done.leader, done.isr, done.elr, done.unclean) == (TWO, (TWO,), (NEW,), ())
    alone = changed(partition(isr=(ONE,)), with_new(inherits=5, state=GONE))
    assert (alone.leader, alone.isr, alone.elr) == (None, (), (NEW,))


def test_a_lost_broker_that_is_gone_again_is_unclean() -> None:
    done = changed(whole(), with_new(inherits=5, damaged=(FIRST,), state=GONE))
    assert (done.isr, done.unclean) == ((TWO, THREE), (1,))


# --- elections --------------------------------------------------------------------------------


def test_a_leaderless_partition_gets_the_leader_that_the_isr_has() -> None:
    done = changed(whole(leader=None), three(GONE, UP, UP))
    assert (done.leader, done.isr) == (TWO, (TWO, THREE))


def test_the_elected_eligible_leader_replica_is_the_whole_isr_and_the_rest_stay_eligible() -> None:
    before = partition(leader=None, isr=(), elr=(THREE, TWO, ONE))
    done = changed(before, three(GONE, UP, UP))
    assert (done.leader, done.isr, done.elr) == (TWO, (TWO,), (THREE, ONE))


def test_an_election_that_reaches_min_isr_empties_the_elr() -> None:
    before = partition(leader=None, isr=(), elr=(ONE, TWO), min_isr=1)
    done = changed(before, three(GONE, UP, UP))
    assert (done.leader, done.isr, done.elr) == (TWO, (TWO,), ())


def test_the_elr_is_not_emptied_while_nobody_leads() -> None:
    before = partition(leader=None, isr=(), elr=(ONE, TWO), min_isr=1)
    assert updated(before, three(GONE, GONE, UP)) is before


def test_the_elr_stays_while_the_isr_is_too_small() -> None:
    before = partition(isr=(ONE,), elr=(TWO,))
    assert updated(before, three()) is before
    assert updated(before, three(UP, GONE)) is before


def test_an_epoch_follows_on_the_way_to_no_leader_and_back_to_the_same_broker() -> None:
    none = changed(partition(isr=(ONE,)), three(GONE))
    assert (none.leader, none.leader_epoch, none.partition_epoch) == (None, 1, 1)
    back = changed(none, with_new(inherits=5))
    assert (back.leader, back.leader_epoch, back.partition_epoch) == (NEW, 2, 2)


def test_the_only_unclean_replica_leads_and_the_possible_loss_is_recorded() -> None:
    done = after(partition(isr=(ONE,)), with_new())
    assert done == partition(
        isr=(NEW,), leader=NEW, leader_epoch=1, partition_epoch=1, possible_loss_epoch=1
    )


def test_a_possible_loss_is_history_once_all_replicas_are_in_sync() -> None:
    lost = partition(isr=(ONE,), leader_epoch=3, possible_loss_epoch=3)
    partly = successor(lost, replace(lost, isr=(ONE, TWO)))
    assert partly.possible_loss_epoch == 3
    assert successor(partly, replace(partly, isr=(ONE, TWO, THREE))).possible_loss_epoch is None


def test_the_loss_of_a_single_replica_is_recorded_until_its_next_record() -> None:
    alone = partition(replicas=(1,), isr=(ONE,))
    lost = after(alone, with_new())
    assert (lost.possible_loss_epoch, lost.leader_epoch, lost.isr) == (1, 1, (NEW,))
    assert successor(lost, replace(lost, min_isr=1)).possible_loss_epoch is None


@pytest.mark.parametrize(
    ("fields", "states"),
    [
        # Two unclean replicas: their logs are to be compared.
        ({"unclean": (1, 2)}, (UP, UP, UP)),
        ({"unclean": (1,)}, (GONE, UP, UP)),
        # A member of the ELR can still come back with all records.
        ({"unclean": (1,), "elr": (TWO,)}, (UP, GONE, UP)),
        ({"unclean": ()}, (UP, UP, UP)),
    ],
)
def test_no_unclean_replica_leads_while_another_may_be_better(
    fields: dict[str, Any], states: tuple[BrokerState, ...]
) -> None:
    before = partition(leader=None, isr=(), **fields)
    assert updated(before, three(*states)) is before


# --- draining ---------------------------------------------------------------------------------


def test_a_draining_leader_yields_and_leaves_the_isr() -> None:
    done = changed(whole(), three(DRAINING))
    assert done == whole(isr=(TWO, THREE), leader=TWO, leader_epoch=1, partition_epoch=1)


def test_a_draining_follower_becomes_eligible_if_too_few_remain() -> None:
    done = changed(partition(), three(UP, DRAINING))
    assert (done.leader, done.leader_epoch, done.isr, done.elr) == (ONE, 0, (ONE,), (TWO,))


def test_the_only_member_goes_on_leading_while_it_drains() -> None:
    before = partition(isr=(ONE,), elr=(THREE,))
    assert updated(before, three(DRAINING, UP, GONE)) is before


def test_of_draining_members_alone_the_leader_stays() -> None:
    done = changed(partition(leader=TWO), three(DRAINING, DRAINING, UP))
    assert (done.leader, done.isr, done.elr) == (TWO, (TWO,), (ONE,))
    led = changed(partition(leader=None), three(DRAINING, DRAINING, UP))
    assert (led.leader, led.isr, led.elr) == (ONE, (ONE,), (TWO,))


def test_a_draining_member_leads_if_all_others_are_gone() -> None:
    done = changed(whole(leader=TWO), three(DRAINING, GONE, GONE))
    assert (done.leader, done.isr, done.elr) == (ONE, (ONE,), (TWO, THREE))


def test_an_eligible_leader_replica_that_drains_leads_only_if_no_other_can() -> None:
    before = partition(leader=None, isr=(), elr=(ONE, TWO))
    assert changed(before, three(DRAINING, UP)).leader == TWO
    assert changed(before, three(DRAINING, GONE)).leader == ONE


# --- all of it --------------------------------------------------------------------------------


def every_partition() -> Iterator[Partition]:
    """Every placement of two replicas under their old and new epochs, with every leader."""
    places = ("isr", "elr", "unclean", "nowhere")
    for first, second, old, min_isr in product(places, places, (True, False), (1, 2)):
        members = ((first, ONE if old else NEW), (second, TWO))
        isr = tuple(member for place, member in members if place == "isr")
        for leader in (None, *isr):
            yield partition(
                replicas=(1, 2),
                isr=isr,
                elr=tuple(member for place, member in members if place == "elr"),
                unclean=tuple(each.broker_id for place, each in members if place == "unclean"),
                leader=leader,
                min_isr=min_isr,
            )


def every_brokers() -> Iterator[dict[int, Broker]]:
    for mine, theirs in product(BrokerState, BrokerState):
        second = broker(2, 6, state=theirs)
        yield {1: broker(1, 9, state=mine), 2: second}
        yield {1: broker(1, 9, state=mine, inherits=5), 2: second}
        yield {1: broker(1, 9, state=mine, inherits=5, damaged=(FIRST,)), 2: second}


def test_every_update_settles_is_consistent_and_leads_where_it_can() -> None:
    count = 0
    for before, brokers in product(every_partition(), every_brokers()):
        done = after(before, brokers)
        check(done)
        if is_untouched(before, brokers):
            assert settled(before, brokers) is before
        if has_serving_leader(before, brokers):
            assert done.leader == before.leader
        live = [each.incarnation for each in brokers.values() if each.is_live]
        assert all(member in live for member in done.isr)
        if any(member in live for member in (*done.isr, *done.elr)):
            assert done.leader in live
        if done.leader is not None and len(done.isr) >= done.min_isr:
            assert done.elr == ()
        assert done.leader_epoch == before.leader_epoch + (done.leader != before.leader)
        count += 1
    assert count > 4_000


def test_a_replica_that_goes_ends_the_leader_epoch() -> None:
    """It may come back with an empty log, under the same broker epoch."""
    before = whole()
    without_three = successor(before, replace(before, replicas=(1, 2), isr=(ONE, TWO)))
    assert (without_three.leader, without_three.leader_epoch) == (ONE, before.leader_epoch + 1)
    moved = successor(before, replace(before, replicas=(1, 2, 4), isr=(ONE, TWO)))
    assert moved.leader_epoch == before.leader_epoch + 1
    for same in ((3, 2, 1), (1, 2, 3, 4)):
        kept = successor(before, replace(before, replicas=same))
        assert kept.leader_epoch == before.leader_epoch
