"""What goes wrong, and when. Each step ends with a broker that runs, or is being asked to."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.sim.broker.machine import HOST
from tests.sim.broker.world import World
from tests.sim.seams.faults import FaultRates
from tests.sim.seams.wire import Conditions

PARTITIONS = "/data/main-*/*"
SEGMENTS = "/data/main-*/*.log"

Step = Callable[["Nemesis"], Awaitable[None]]


class Nemesis:
    """Does a number of steps. Without `loses_power` no step loses what was written."""

    def __init__(self, world: World, hosts: list[str], *, loses_power: bool) -> None:
        self._world = world
        self._machine = world.machine
        self._entropy = world.entropy.fork("nemesis")
        self._hosts = hosts
        self._lot = _steps(loses_power=loses_power)

    async def run(self, steps: int) -> None:
        self._change_weather()
        for _ in range(steps):
            await asyncio.sleep(self._entropy.between(10, 1_500) / 1e3)
            self._machine.check_fault()
            step = self._entropy.pick(self._lot)
            self._world.witness.note(step.__name__)
            await step(self)
            self._machine.check_fault()
        await self._make_peace()

    async def _make_peace(self) -> None:
        """Nothing more goes wrong, and what was broken is whole."""
        self._world.witness.note("peace")
        self._machine.disk.faults.clear()
        self._machine.free_disk()
        self._machine.network.heal()
        self._machine.network.conditions = Conditions()
        self._world.is_calm = True

    # The process and the machine

    async def crash(self) -> None:
        await self._restart(loses_power=False)

    async def power_loss(self) -> None:
        await self._restart(loses_power=True)

    async def crash_in_the_middle(self) -> None:
        await self._restart_in_the_middle(loses_power=False)

    async def power_loss_in_the_middle(self) -> None:
        await self._restart_in_the_middle(loses_power=True)

    async def crash_and_soon_power_loss(self) -> None:
        """What the first left in the page cache is perhaps asked for before it is flushed."""
        await self._restart_in_the_middle(loses_power=False)
        await asyncio.sleep(self._entropy.between(10, 500) / 1e3)
        await self._restart(loses_power=True)

    async def clean_stop(self) -> None:
        await self._machine.stop()
        if self._entropy.chance(0.3):
            # What was stopped cleanly is safe without flushes, too.
            self._machine.kill(loses_power=True)
        await self._start_again()

    async def _restart(self, *, loses_power: bool) -> None:
        self._machine.kill(loses_power=loses_power)
        await self._start_again()

    async def _restart_in_the_middle(self, *, loses_power: bool) -> None:
        await self._machine.kill_within(
            self._entropy.below(40), loses_power=loses_power, wait_s=2.0
        )
        await self._start_again()

    async def _start_again(self) -> None:
        await asyncio.sleep(self._entropy.between(1, 1_000) / 1e3)
        self._machine.free_disk()
        self._machine.disk.faults.clear()
        if self._entropy.chance(0.2):
            self._machine.death.arm(self._entropy.below(80))
        await self._machine.start()
        self._machine.death.disarm()
        self._change_weather()

    # The network

    async def reset_a_client(self) -> None:
        self._machine.network.reset(self._entropy.pick(self._hosts), HOST)

    async def cut_off_a_client(self) -> None:
        host = self._entropy.pick(self._hosts)
        self._machine.network.partition(host, HOST)
        await asyncio.sleep(self._entropy.between(1, 12_000) / 1e3)
        self._machine.network.heal(host, HOST)

    # The disk

    async def fill_disk(self) -> None:
        self._machine.fill_disk(self._entropy.pick((0, 100, 5_000, 40_000)))
        await asyncio.sleep(self._entropy.between(100, 3_000) / 1e3)
        self._machine.free_disk()

    async def fail_a_sync(self) -> None:
        """What a failed sync was to save may be gone for good: only a new boot tells."""
        await self._fail_and_restart(
            lambda: self._machine.disk.faults.fail_next_sync(SEGMENTS), loses_power=True
        )

    async def fail_a_write(self) -> None:
        await self._fail_and_restart(
            lambda: self._machine.disk.faults.fail_next("write", SEGMENTS), loses_power=False
        )

    async def fail_a_read(self) -> None:
        await self._fail_and_restart(
            lambda: self._machine.disk.faults.fail_next_read(PARTITIONS), loses_power=False
        )

    async def _fail_and_restart(self, fail: Callable[[], None], *, loses_power: bool) -> None:
        self._world.failed_life = self._machine.lives
        fail()
        await asyncio.sleep(self._entropy.between(100, 2_000) / 1e3)
        self._machine.check_fault()
        await self._restart(loses_power=loses_power)

    # The weather

    def _change_weather(self) -> None:
        entropy = self._entropy
        self._machine.network.conditions = Conditions(
            split_rate=entropy.pick((0.0, 0.1, 0.5)),
            gather_rate=entropy.pick((0.0, 0.3, 0.8)),
            reset_rate=entropy.pick((0.0, 0.0, 0.003)),
            window_bytes=entropy.pick((1_000, 8_000, 65_536)),
            late_read=entropy.chance(0.5),
        )
        self._machine.disk.faults.rates = FaultRates(
            short_write=entropy.pick((0.0, 0.2)),
            cold=entropy.pick((0.0, 0.0, 0.5)),
            stall=entropy.pick((0.0, 0.0, 0.01)),
            stall_ms_max=200,
        )


def _steps(*, loses_power: bool) -> list[Step]:
    """Each step as often as it is to come."""
    steps: list[Step] = [
        *[Nemesis.crash] * 3,
        *[Nemesis.crash_in_the_middle] * 4,
        *[Nemesis.clean_stop] * 2,
        *[Nemesis.reset_a_client] * 3,
        Nemesis.cut_off_a_client,
        *[Nemesis.fill_disk] * 2,
        Nemesis.fail_a_write,
        Nemesis.fail_a_read,
    ]
    if loses_power:
        steps += [
            *[Nemesis.power_loss] * 3,
            *[Nemesis.crash_and_soon_power_loss] * 3,
            *[Nemesis.power_loss_in_the_middle] * 4,
            *[Nemesis.fail_a_sync] * 2,
        ]
    return steps
