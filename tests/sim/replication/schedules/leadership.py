"""Stories of partitions without a leader, and of leaders that do not know that they are deposed."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ottla.broker.node.stall_guard import StallGuard
from ottla.errors import ErrorCode
from ottla.metadata.controller import min_isr as min_isr_changes
from ottla.metadata.records import Partition
from ottla.protocol.acks import Acks
from tests.sim.cluster.sessions import SESSION_TIMEOUT_S
from tests.sim.replication.mutants import (
    a_deposed_leader_goes_on,
    progress_outlives_its_leader_epoch,
)
from tests.sim.replication.schedules.stage import Schedule, Stage
from tests.support.broker.produce_and_fetch import only


def a_smaller_min_isr_empties_the_elr(patch: pytest.MonkeyPatch) -> None:
    with_min_isr = min_isr_changes.with_min_isr

    def without_elr(partition: Partition, min_isr: int, brokers: Any) -> Partition:
        return replace(with_min_isr(partition, min_isr, brokers), elr=())

    patch.setattr(min_isr_changes, "with_min_isr", without_elr)


async def min_isr_changes_while_nobody_leads(stage: Stage) -> None:
    """A replica that left the ISR first has all committed records, and leads when it is back."""
    last, first_to_leave = stage.one, stage.two
    await stage.create_topic(last, first_to_leave, min_isr=2)
    await stage.write(last, b"committed")
    stage.machine(first_to_leave).kill()
    await stage.until(lambda: stage.isr == {last} and stage.elr == {first_to_leave})
    await stage.write(last, b"never committed", Acks.LEADER)
    stage.machine(last).kill()
    await stage.until(lambda: stage.leader is None)
    await stage.set_min_isr(1)
    await stage.until(lambda: stage.record.min_isr == 1)
    await stage.machine(first_to_leave).until_up(30)
    await stage.until(lambda: stage.leads(first_to_leave))
    await stage.write(first_to_leave, b"next")
    await stage.machine(last).until_up(30)
    await stage.until_in_sync()
    assert stage.log(last) == stage.log(first_to_leave) == [b"committed", b"next"]


async def a_paused_leader_is_deposed(stage: Stage) -> None:
    """What waits there was never committed, and is answered so."""
    deposed = stage.one
    await stage.create_topic(deposed, stage.two, stage.controller, min_isr=2)
    await stage.write(deposed, b"first")
    for other in (stage.two, stage.controller):
        stage.cut(deposed, other)
    answer = await stage.begin_to_write(deposed, b"never committed")
    await stage.until(lambda: stage.log(deposed)[-1] == b"never committed")
    machine = stage.machine(deposed)
    process = machine.pause()
    assert process is not None
    await asyncio.sleep(2 * SESSION_TIMEOUT_S)
    await stage.until(lambda: stage.leader not in (deposed, None))
    leader = stage.leader
    assert leader is not None
    await stage.write(leader, b"second")
    for other in (stage.two, stage.controller):
        stage.heal(deposed, other)
    machine.resume(process)
    async with asyncio.timeout(60):
        assert only(await answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await stage.until_in_sync()
    assert stage.log(deposed) == stage.log(leader) == [b"first", b"second"]


def a_stall_of_the_loop_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StallGuard, "now_ns", lambda self: self._steady_ns())


async def a_paused_leader_finds_a_request(stage: Stage) -> None:
    """It came while the leader stood still, and is the first that it handles."""
    deposed = stage.one
    await stage.create_topic(deposed, stage.two, stage.controller, min_isr=2)
    await stage.write(deposed, b"first")
    line = await stage.connect(deposed)
    machine = stage.machine(deposed)
    process = machine.pause()
    assert process is not None
    answer = stage.send(line, b"too late", Acks.LEADER)
    await asyncio.sleep(2 * SESSION_TIMEOUT_S)
    await stage.until(lambda: stage.leader not in (deposed, None))
    machine.resume(process)
    async with asyncio.timeout(60):
        assert only(await answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await stage.until_in_sync()
    await stage.until(lambda: stage.is_up(deposed))
    assert stage.log(deposed) == [b"first"]


async def a_leader_is_back_after_its_follower_truncated(stage: Stage) -> None:
    """What a follower had in the leader's last epoch says nothing about this one."""
    first, second, follower = stage.one, stage.controller, stage.two
    await stage.create_topic(first, second, follower, min_isr=2)
    await stage.write(first, b"first")
    # The follower has a record that is not committed; the second replica does not get it.
    stage.cut(first, second)
    answer = await stage.begin_to_write(first, b"never committed")
    await stage.until(lambda: stage.log(follower)[-1] == b"never committed")
    # The leader hears what it has with its next fetch.
    await asyncio.sleep(1)
    stage.cut(first, follower)
    stage.cut_off_from_ensemble(first)
    await stage.until(lambda: stage.leads(second))
    await stage.until(lambda: stage.log(follower) == [b"first"])
    stage.let_to_ensemble(first)
    stage.heal(first, second)
    await stage.until(lambda: first in stage.isr)
    await stage.elect_preferred()
    await stage.until(lambda: stage.leads(first))
    assert only(await answer).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    code = await stage.try_to_write(first, b"second")
    assert code == ErrorCode.REQUEST_TIMED_OUT, "the follower does not have it"
    assert stage.replica(first).high_watermark == 1
    stage.heal(first, follower)
    await stage.until_in_sync()
    assert stage.log(follower) == [b"first", b"second"]


SCHEDULES = (
    Schedule(
        min_isr_changes_while_nobody_leads,
        a_smaller_min_isr_empties_the_elr,
        r"it does not come: .*elr=\(\)",
    ),
    Schedule(a_paused_leader_is_deposed, a_deposed_leader_goes_on, r"NOT_LEADER_OR_FOLLOWER"),
    Schedule(
        a_paused_leader_finds_a_request,
        a_stall_of_the_loop_is_not_noticed,
        r"NOT_LEADER_OR_FOLLOWER",
    ),
    Schedule(
        a_leader_is_back_after_its_follower_truncated,
        progress_outlives_its_leader_epoch,
        r"the follower does not have it",
    ),
)
