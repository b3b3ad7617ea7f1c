"""Elections by log ends: whom to ask, who wins, and when the answers are worthless."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.metadata.controller.unclean_election import LogEnd, candidates, elected_by_log_ends
from ottla.metadata.records import Broker, Partition
from ottla.metadata.values import BrokerState, Incarnation
from tests.support.metadata.sample_records import broker, partition

ONE, TWO, THREE = Incarnation(1, 5), Incarnation(2, 6), Incarnation(3, 7)


def brokers(*live: int) -> dict[int, Broker]:
    return {
        number: broker(
            number, 4 + number, state=BrokerState.UP if number in live else BrokerState.GONE
        )
        for number in (1, 2, 3)
    }


def leaderless(**fields: Any) -> Partition:
    return partition(**{"leader": None, "isr": (), "unclean": (2, 1), **fields})


def asked(before: Partition, live: dict[int, Broker], *, allowed: bool) -> tuple[Incarnation, ...]:
    return candidates(before, live, is_unclean_allowed=allowed)


def elect(
    before: Partition, ends: dict[Incarnation, LogEnd], *, allowed: bool = False, epoch: int = 0
) -> Partition | None:
    return elected_by_log_ends(before, brokers(1, 2, 3), epoch, ends, is_unclean_allowed=allowed)


def test_all_unclean_replicas_are_asked_in_replica_order_once_they_are_live() -> None:
    assert asked(leaderless(), brokers(1, 2), allowed=False) == (ONE, TWO)
    assert asked(leaderless(), brokers(1, 3), allowed=False) == ()


def test_nobody_is_asked_while_an_eligible_leader_replica_may_come_back() -> None:
    before = leaderless(elr=(THREE,))
    assert asked(before, brokers(1, 2), allowed=False) == ()
    assert asked(before, brokers(1, 2), allowed=True) == (ONE, TWO)


def test_every_live_replica_is_asked_if_unclean_elections_are_allowed() -> None:
    assert asked(leaderless(), brokers(1, 3), allowed=True) == (ONE, THREE)
    assert asked(leaderless(), brokers(), allowed=True) == ()


@pytest.mark.parametrize("allowed", [True, False])
def test_nobody_is_asked_if_somebody_leads_or_will_lead(allowed: bool) -> None:
    assert asked(partition(unclean=(3,)), brokers(1, 2, 3), allowed=allowed) == ()
    assert asked(leaderless(elr=(THREE,)), brokers(1, 2, 3), allowed=allowed) == ()
    # The only one: it leads without being asked.
    assert asked(leaderless(unclean=(1,)), brokers(1, 2, 3), allowed=allowed) == ()


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        (LogEnd(4, 10), LogEnd(3, 99), ONE),
        (LogEnd(4, 10), LogEnd(4, 11), TWO),
        (LogEnd(-1, 0), LogEnd(0, 1), TWO),
        # A tie: the first replica.
        (LogEnd(4, 10), LogEnd(4, 10), ONE),
    ],
)
def test_the_latest_epoch_wins_then_the_longest_log(
    first: LogEnd, second: LogEnd, winner: Incarnation
) -> None:
    after = elect(leaderless(leader_epoch=6), {ONE: first, TWO: second})

    # The other one may have records that the leader loses later.
    loser = 2 if winner == ONE else 1
    assert after == leaderless(
        leader=winner,
        isr=(winner,),
        unclean=(loser,),
        leader_epoch=7,
        partition_epoch=1,
        possible_loss_epoch=7,
    )


def test_ties_go_by_the_order_of_the_replicas() -> None:
    end = LogEnd(4, 10)
    after = elect(leaderless(replicas=(3, 2, 1)), {ONE: end, TWO: end})
    assert after is not None
    assert after.leader == TWO


def test_an_allowed_election_gives_up_the_eligible_leader_replicas() -> None:
    before = leaderless(elr=(Incarnation(3, 7),), unclean=())
    gone = brokers(1, 2)
    ends = {ONE: LogEnd(1, 1), TWO: LogEnd(1, 2)}

    after = elected_by_log_ends(before, gone, 0, ends, is_unclean_allowed=True)

    assert after is not None
    assert (after.leader, after.isr, after.elr, after.unclean) == (TWO, (TWO,), (), (3,))
    assert elected_by_log_ends(before, gone, 0, ends, is_unclean_allowed=False) is None


def test_answers_do_not_count_if_one_is_missing_or_the_partition_has_changed() -> None:
    ends = {ONE: LogEnd(1, 1), TWO: LogEnd(1, 2)}
    before = leaderless(partition_epoch=3)

    assert elect(before, {ONE: LogEnd(1, 1)}, epoch=3) is None
    assert elect(before, ends, epoch=2) is None
    assert elect(replace(before, leader=ONE, isr=(ONE,), unclean=(2,)), ends, epoch=3) is None
    assert elect(before, ends, epoch=3) is not None


def test_the_answer_of_a_broker_that_has_restarted_since_does_not_count() -> None:
    ends = {ONE: LogEnd(1, 1), Incarnation(2, 4): LogEnd(1, 2)}
    assert elect(leaderless(), ends) is None
