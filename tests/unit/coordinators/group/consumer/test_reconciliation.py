"""The steps of a member from its current to its target assignment."""

import pytest

from ottla.coordinators.group.consumer.reconciliation import (
    NO_PARTITIONS,
    MemberState,
    Target,
    assigned_since,
    at_epoch,
    held,
    may_step,
    next_assignment,
    uniform_epochs,
)
from ottla.coordinators.group.records import CurrentAssignmentSaved, Partitions
from ottla.protocol.primitives import Uuid
from tests.support.coordinators.consumer_clients import topic_id

LOGS = topic_id(1)


def logs(*indexes: int) -> Partitions:
    return {LOGS: indexes} if indexes else {}


def current(
    *assigned: int,
    epoch: int = 1,
    state: int = MemberState.STABLE,
    revoking: Partitions = NO_PARTITIONS,
) -> CurrentAssignmentSaved:
    return CurrentAssignmentSaved(
        group="g",
        member_id="m",
        epoch=epoch,
        previous_epoch=0,
        state=state,
        assigned=logs(*assigned),
        revoking=revoking,
        assigned_epochs=uniform_epochs(logs(*assigned), epoch),
    )


def free(_topic_id: Uuid, _index: int) -> bool:
    return False


def test_a_member_takes_free_partitions_at_once_and_is_stable() -> None:
    after = next_assignment(current(0), Target(2, logs(0, 1)), None, free)
    assert (after.state, after.epoch, after.previous_epoch) == (MemberState.STABLE, 2, 1)
    assert after.assigned == logs(0, 1)
    assert assigned_since(after) == {(LOGS, 0): 1, (LOGS, 1): 2}


def test_a_member_keeps_its_epoch_until_it_has_revoked() -> None:
    after = next_assignment(current(0, 1), Target(2, logs(0, 2)), logs(0, 1), free)
    assert (after.state, after.epoch) == (MemberState.UNREVOKED_PARTITIONS, 1)
    assert (after.assigned, after.revoking) == (logs(0), logs(1))
    assert held(after) == logs(0, 1)


def test_a_member_whose_partitions_are_taken_waits_at_the_new_epoch() -> None:
    after = next_assignment(current(0), Target(2, logs(0, 1)), None, lambda _, index: index == 1)
    assert (after.state, after.epoch) == (MemberState.UNRELEASED_PARTITIONS, 2)
    assert after.assigned == logs(0)


@pytest.mark.parametrize(
    ("owned", "can_step"), [(None, False), (logs(1), False), (logs(0), True), (NO_PARTITIONS, True)]
)
def test_a_revoking_member_steps_once_it_reports_the_revocation(
    owned: Partitions | None, can_step: bool
) -> None:
    revoking = current(0, state=MemberState.UNREVOKED_PARTITIONS, revoking=logs(1))
    assert may_step(revoking, Target(2, logs(0)), owned, must_shrink=False) is can_step


def test_a_stable_member_steps_only_to_a_new_epoch_or_after_it_unsubscribed() -> None:
    target = Target(1, logs(0))
    assert not may_step(current(0), target, None, must_shrink=False)
    assert may_step(current(0), target, None, must_shrink=True)
    assert may_step(current(0), target._replace(epoch=2), None, must_shrink=False)


def test_the_previous_epoch_is_kept_for_a_lost_answer() -> None:
    member = current(0)
    assert at_epoch(member, 1) is member
    assert (at_epoch(member, 3).epoch, at_epoch(member, 3).previous_epoch) == (3, 1)
