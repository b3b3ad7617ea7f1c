"""Stories of followers that must truncate, and of those that must not."""

from ottla.protocol.acks import Acks
from tests.sim.replication.mutants import (
    a_follower_truncates_to_its_high_watermark,
    a_follower_truncates_to_the_leaders_end_only,
    a_follower_truncates_without_asking_again,
    no_epoch_is_cut_with_no_record,
)
from tests.sim.replication.schedules.stage import Schedule, Stage


async def a_follower_restarts_before_it_hears_of_the_high_watermark(stage: Stage) -> None:
    """KIP-101, scenario 1: it leads next, and has all that was acknowledged."""
    leader, follower = stage.one, stage.two
    await stage.create_topic(leader, follower, min_isr=1)
    await stage.write(leader, b"first")
    await stage.write(leader, b"second")
    machine = stage.machine(follower)
    machine.kill()
    # It cannot fetch again what it might truncate.
    stage.cut(leader, follower)
    await machine.until_up(30)
    await stage.until(lambda: stage.is_up(follower) and follower in stage.isr)
    stage.machine(leader).kill()
    await stage.until(lambda: stage.leads(follower))
    assert await stage.read(follower) == [b"first", b"second"]
    stage.heal(leader, follower)
    await stage.machine(leader).until_up(30)


async def a_deposed_leader_has_another_record_at_the_same_offset(stage: Stage) -> None:
    """KIP-101, scenario 2: both logs are as long, and the records differ."""
    deposed, leader = stage.one, stage.two
    await stage.create_topic(deposed, leader, min_isr=1)
    await stage.write(deposed, b"first")
    stage.cut(deposed, leader)
    stage.cut_off_from_ensemble(deposed)
    await stage.write(deposed, b"never committed", Acks.LEADER)
    await stage.until(lambda: stage.leads(leader))
    await stage.write(leader, b"second")
    stage.heal(deposed, leader)
    stage.let_to_ensemble(deposed)
    await stage.until_in_sync()
    assert stage.log(deposed) == stage.log(leader) == [b"first", b"second"]


async def leaders_change_twice_before_a_follower_truncates(stage: Stage) -> None:
    """KIP-279: the leader does not know the follower's last epoch, only an earlier one."""
    one, two = stage.one, stage.two
    await stage.create_topic(one, two, min_isr=2)
    await stage.write(one, b"first")
    stage.cut(one, two)
    await stage.write(one, b"of epoch 0", Acks.LEADER)
    stage.cut_off_from_ensemble(one)
    await stage.until(lambda: stage.leads(two))
    await stage.write(two, b"of epoch 1", Acks.LEADER)
    stage.machine(two).kill()
    await stage.until(lambda: stage.leader is None)
    stage.let_to_ensemble(one)
    await stage.until(lambda: stage.leads(one))
    await stage.write(one, b"of epoch 3", Acks.LEADER)
    stage.heal(one, two)
    await stage.machine(two).until_up(30)
    await stage.until_in_sync()
    assert stage.log(one) == stage.log(two) == [b"first", b"of epoch 0", b"of epoch 3"]


async def an_epoch_in_which_nobody_wrote_is_forgotten(stage: Stage) -> None:
    """KAFKA-10706: a truncation that cuts no record, and yet an epoch.

    A broker leads without a record, then follows one with more records of the epoch before. In its
    own epochs these must not be records of the epoch that it led.
    """
    one, two = stage.one, stage.two
    await stage.create_topic(one, two, min_isr=2)
    await stage.write(one, b"first")
    stage.cut(one, two)
    await stage.write(one, b"second", Acks.LEADER)
    stage.cut_off_from_ensemble(one)
    await stage.until(lambda: stage.leads(two))
    stage.cut_off_from_ensemble(two)
    await stage.until(lambda: stage.leader is None)
    stage.let_to_ensemble(one)
    await stage.until(lambda: stage.leads(one))
    stage.heal(one, two)
    stage.let_to_ensemble(two)
    await stage.until_in_sync()
    assert stage.log(one) == stage.log(two) == [b"first", b"second"]
    # It leads again, and its follower asks it where the first epoch ends.
    stage.cut_off_from_ensemble(one)
    await stage.until(lambda: stage.leads(two))
    stage.let_to_ensemble(one)
    await stage.until_in_sync()
    assert stage.log(one) == stage.log(two) == [b"first", b"second"]


SCHEDULES = (
    Schedule(
        a_follower_restarts_before_it_hears_of_the_high_watermark,
        a_follower_truncates_to_its_high_watermark,
        r"stage\.read\(follower\)",
    ),
    Schedule(
        a_deposed_leader_has_another_record_at_the_same_offset,
        a_follower_truncates_to_the_leaders_end_only,
        r"stage\.log\(deposed\)",
    ),
    Schedule(
        leaders_change_twice_before_a_follower_truncates,
        a_follower_truncates_without_asking_again,
        r"it does not come",
    ),
    Schedule(
        an_epoch_in_which_nobody_wrote_is_forgotten,
        no_epoch_is_cut_with_no_record,
        r"invariant 3: .* truncates from 2 to 1",
    ),
)
