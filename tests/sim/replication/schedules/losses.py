"""Stories of replicas that have lost records, or cannot reach them, and must not lead."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.broker.node.offline_logs import OfflineLogReports
from ottla.errors import ErrorCode
from ottla.metadata.controller import broker_registrations
from ottla.metadata.records import Broker
from tests.sim.cluster.mutants import (
    any_earlier_incarnation_is_inherited,
    damaged_logs_are_not_told,
)
from tests.sim.replication.schedules.stage import TOPIC, Schedule, Stage

VALUES = tuple(b"%d" % number + b"." * 500 for number in range(20))
# In the records of the first batch, behind its header: the checksum covers it.
DAMAGED_POSITION = 65


def offline_logs_are_not_reported(patch: pytest.MonkeyPatch) -> None:
    async def stay_silent(self: OfflineLogReports) -> None:
        await asyncio.Event().wait()

    patch.setattr(OfflineLogReports, "run", stay_silent)


async def an_intact_broker_has_a_damaged_log(stage: Stage) -> None:
    """It was killed, its machine was not; one log is cut at a damaged batch. It must not lead."""
    leader, damaged, other = stage.one, stage.two, stage.controller
    await stage.create_topic(leader, damaged, other, min_isr=2)
    await _write_all(stage, leader, VALUES)
    machine = stage.machine(damaged)
    machine.kill()
    machine.disk.flip_bit(f"/?/{TOPIC}-0/*.log", DAMAGED_POSITION)
    stage.cut(damaged, leader)
    await machine.until_up(30)
    await stage.until(lambda: stage.is_up(damaged))
    stage.machine(leader).kill()
    await stage.until(lambda: stage.leader not in (leader, None))
    assert stage.leader == other
    await stage.until(lambda: stage.leads(other))
    stage.heal(damaged, leader)
    await stage.machine(leader).until_up(30)
    await stage.until_in_sync()
    assert await stage.read(other) == list(VALUES)


async def a_leader_loses_power_and_is_back_within_its_session(stage: Stage) -> None:
    """Its peers hear of a new incarnation only, which has lost what it did not flush."""
    leader = stage.one
    await stage.create_topic(leader, stage.two, stage.controller, min_isr=2)
    await _write_all(stage, leader, VALUES)
    epoch = stage.record.leader_epoch
    machine = stage.machine(leader)
    machine.kill(loses_power=True)
    machine.switch_on()
    await stage.until(lambda: stage.is_up(leader) and stage.record.leader_epoch > epoch)
    await stage.until_in_sync()
    now = stage.leader
    assert now is not None
    assert await stage.read(now) == list(VALUES)


def any_older_incarnation_is_inherited(patch: pytest.MonkeyPatch) -> None:
    """Not only the last one, which is compared for equality."""

    def inherit(known: Broker | None, inherits: Sequence[str]) -> tuple[int, ...]:
        return () if known is None or not inherits else (known.epoch, *known.inherited_epochs)

    patch.setattr(broker_registrations, "_inherited_epochs", inherit)


async def a_disk_is_restored_from_a_backup(stage: Stage) -> None:
    """It was stopped cleanly when it was copied, and lacks what came later. It must not lead."""
    leader, restored = stage.one, stage.two
    await stage.create_topic(leader, restored, min_isr=2)
    await _write_all(stage, leader, VALUES[:3])
    machine = stage.machine(restored)
    await machine.stop()
    backup = machine.disk.back_up()
    await machine.until_up(30)
    await stage.until(lambda: stage.isr == {leader, restored})
    await _write_all(stage, leader, VALUES[3:])
    machine.kill()
    await stage.until(lambda: stage.elr == {restored})
    machine.disk.restore(backup)
    stage.cut(leader, restored)
    await machine.until_up(30)
    await stage.until(lambda: stage.is_up(restored))
    stage.machine(leader).kill()
    await stage.until(lambda: stage.leader != leader)
    await asyncio.sleep(2)
    assert stage.leader is None
    stage.heal(leader, restored)
    await stage.machine(leader).until_up(30)
    await stage.until_in_sync()
    assert await stage.read(leader) == list(VALUES)


async def a_log_goes_offline_on_a_live_leader(stage: Stage) -> None:
    """Another replica leads, with all that was acknowledged."""
    leader = stage.one
    await stage.create_topic(leader, stage.two, stage.controller, min_isr=2)
    await _write_all(stage, leader, VALUES[:3])
    machine = stage.machine(leader)
    machine.disk_fails()
    machine.disk.faults.fail_next("write", f"/?/{TOPIC}-0/*.log")
    code = await stage.try_to_write(leader, b"refused")
    assert code == ErrorCode.KAFKA_STORAGE_ERROR
    await stage.until(lambda: stage.leader not in (leader, None))
    now = stage.leader
    assert now is not None
    await stage.until(lambda: stage.leads(now))
    await stage.write(now, VALUES[3])
    assert await stage.read(now) == list(VALUES[:4])
    # The log is opened again with the next life.
    machine.disk.faults.clear()
    machine.kill()
    await machine.until_up(30)


async def _write_all(stage: Stage, leader: int, values: Sequence[bytes]) -> None:
    for value in values:
        await stage.write(leader, value)


SCHEDULES: tuple[Any, ...] = (
    Schedule(
        an_intact_broker_has_a_damaged_log, damaged_logs_are_not_told, r"stage\.leader == other"
    ),
    Schedule(
        a_leader_loses_power_and_is_back_within_its_session,
        any_earlier_incarnation_is_inherited,
        r"invariant 3: .* is not there|stage\.read\(now\)",
        seed=2,
    ),
    Schedule(
        a_disk_is_restored_from_a_backup,
        any_older_incarnation_is_inherited,
        r"invariant 3: .* is not there|stage\.leader is None",
    ),
    Schedule(
        a_log_goes_offline_on_a_live_leader, offline_logs_are_not_reported, r"it does not come"
    ),
)
