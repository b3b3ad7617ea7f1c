"""Stories of followers that join the ISR, and of what the leader knows of it."""

import asyncio

from ottla.protocol.acks import Acks
from tests.sim.replication.mutants import (
    a_replica_that_goes_keeps_the_leader_epoch,
    an_isr_request_without_an_answer_has_failed,
    progress_is_by_broker_only,
)
from tests.sim.replication.schedules.stage import Schedule, Stage


async def a_leader_does_not_hear_that_a_follower_has_joined(stage: Stage) -> None:
    """The answer is lost, and the record comes late: the high watermark waits for the follower."""
    leader, follower = stage.one, stage.two
    await stage.create_topic(leader, follower, min_isr=1)
    await stage.write(leader, b"first")
    stage.machine(follower).kill()
    await stage.until(lambda: stage.isr == {leader})
    stage.loses_isr_requests = True
    await stage.machine(follower).until_up(30)
    await stage.until(lambda: stage.is_up(follower))
    await asyncio.sleep(2)
    assert stage.isr == {leader}
    stage.cut_off_from_ensemble(leader)
    stage.loses_isr_requests, stage.loses_isr_answers = False, True
    await stage.until(lambda: stage.isr == {leader, follower})
    stage.cut(leader, follower)
    await stage.write(leader, b"second", Acks.LEADER)
    assert stage.replica(leader).high_watermark == 1
    stage.loses_isr_answers = False
    stage.heal(leader, follower)
    stage.let_to_ensemble(leader)
    await stage.until_in_sync()
    assert stage.replica(leader).high_watermark == 2


async def a_follower_has_lost_what_its_former_incarnation_had(stage: Stage) -> None:
    """It joins the ISR when it has fetched again, not with what the leader remembers of it."""
    leader, follower = stage.one, stage.two
    await stage.create_topic(leader, follower, min_isr=2)
    for number in range(20):
        await stage.write(leader, b"%d" % number)
    # It does not fetch before the cut is healed.
    stage.cut(leader, follower)
    stage.machine(follower).kill(loses_power=True)
    await stage.machine(follower).until_up(30)
    await stage.until(lambda: stage.is_up(follower))
    await asyncio.sleep(2)
    assert stage.isr == {leader}
    stage.heal(leader, follower)


async def a_replica_goes_and_is_back_with_an_empty_log(stage: Stage) -> None:
    """It joins the ISR when it has fetched all, not with what the leader remembers of its log."""
    leader, follower = stage.one, stage.two
    await stage.create_topic(leader, follower, min_isr=1)
    await stage.write(leader, b"first")
    await stage.reassign(leader)
    await stage.until(lambda: stage.record.replicas == (leader,))
    # It does not fetch before the cut is healed.
    stage.cut(leader, follower)
    await stage.reassign(leader, follower)
    await asyncio.sleep(2)
    assert stage.isr == {leader}
    stage.heal(leader, follower)


SCHEDULES = (
    Schedule(
        a_replica_goes_and_is_back_with_an_empty_log,
        a_replica_that_goes_keeps_the_leader_epoch,
        r"isr == \{leader\}",
    ),
    Schedule(
        a_leader_does_not_hear_that_a_follower_has_joined,
        an_isr_request_without_an_answer_has_failed,
        r"high_watermark == 1",
    ),
    Schedule(
        a_follower_has_lost_what_its_former_incarnation_had,
        progress_is_by_broker_only,
        r"isr == \{leader\}",
    ),
)
