"""What goes wrong where transactions are concerned, besides all that may go wrong anyway."""

import asyncio
from typing import Any

from tests.sim.broker.nemesis import Nemesis
from tests.sim.broker.transactional_world import OneBrokerWorld
from tests.sim.disk_switches import ANY_PATH

COORDINATORS = "/data/__[ct]*/*.log"
TRANSACTION_LOGS = "/data/__transaction_state-*"
# How long to wait for the end of a transaction.
END_MS_MAX = 1_000
JUMPS_MS = (-3_600_000, -5_000, 5_000, 3_600_000)


class TransactionalNemesis(Nemesis):
    """Goes for the coordinators, for the moment in which a transaction ends, and for the clock."""

    def __init__(self, world: OneBrokerWorld, hosts: list[str], *, loses_power: bool) -> None:
        super().__init__(world.base, hosts, loses_power=loses_power)
        self._transactions = world
        self._loses_power = loses_power
        steps: list[Any] = [
            *[TransactionalNemesis.crash_while_a_transaction_ends] * 16,
            *[TransactionalNemesis.jump_clock] * 2,
            TransactionalNemesis.fail_a_write_of_a_coordinator,
        ]
        if loses_power:
            steps += [
                *[TransactionalNemesis.fail_a_sync_of_a_coordinator] * 2,
                *[TransactionalNemesis.power_loss_before_a_decision_is_flushed] * 20,
            ]
        self._lot += steps

    async def crash_while_a_transaction_ends(self) -> None:
        """Between the decision, its markers, their record and the answer."""
        await self._wait_for_an_end()
        loses_power = self._loses_power and self._entropy.chance(0.7)
        pattern, most = self._entropy.pick(((ANY_PATH, 12), (TRANSACTION_LOGS, 4)))
        await self._machine.kill_within(
            self._entropy.below(most), loses_power=loses_power, wait_s=0.5, pattern=pattern
        )
        await self._start_again()

    async def power_loss_before_a_decision_is_flushed(self) -> None:
        """Whatever it has led to already may be durable."""
        await self._wait_for_an_end()
        await self._machine.kill_within(
            0, loses_power=True, wait_s=0.5, pattern=TRANSACTION_LOGS, operation="sync"
        )
        await self._start_again()

    async def _wait_for_an_end(self) -> None:
        for _ in range(END_MS_MAX):
            if self._transactions.ending:
                break
            await asyncio.sleep(0.001)
        if self._entropy.chance(0.6):
            # Whoever loses its connection now does not live to repeat its request.
            self._transactions.crashes += 1

    async def jump_clock(self) -> None:
        jump_ms = self._entropy.pick(JUMPS_MS)
        self._transactions.history.clock_jumps += 1
        self._transactions.history.counts["clock set back"] += jump_ms < 0
        self._machine.clock.jump_wall(jump_ms)

    async def crash_in_peace(self) -> None:
        """The broker finds open transactions when it starts again, at any time of the day."""
        await self.jump_clock()
        self._machine.kill()
        await self._machine.start()

    async def fail_a_write_of_a_coordinator(self) -> None:
        await self._fail_and_restart(
            lambda: self._machine.disk.faults.fail_next("write", COORDINATORS), loses_power=False
        )

    async def fail_a_sync_of_a_coordinator(self) -> None:
        await self._fail_and_restart(
            lambda: self._machine.disk.faults.fail_next_sync(COORDINATORS), loses_power=True
        )
