"""The faults of a cluster's simulation. Each is repaired in the background, a random time later."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, ClassVar, NamedTuple

from tests.sim.cluster import sessions
from tests.sim.cluster.cluster import BrokerMachine
from tests.sim.cluster.settings import SECOND_DIRECTORY
from tests.sim.cluster.world import World
from tests.sim.seams.faults import FaultRates
from tests.sim.seams.owner import kernel_context
from tests.sim.seams.wire import Conditions

LOGS = "/[ab]/main-*/*"
SEGMENTS = "/[ab]/main-*/*.log"
# How long it may take, once nothing more goes wrong, until every broker serves.
START_S_MAX = 60.0
# Within a resend of a batch its timestamp must not be too far in the future.
CLOCK_JUMP_MS_MAX = 600_000
SESSION_TIMEOUT_MS = int(sessions.SESSION_TIMEOUT_S * 1e3)

Fault = Callable[[Any], None]


class Weighted(NamedTuple):
    fault: Fault
    weight: int
    # Whether records that are not flushed are lost.
    loses_power: bool = False


class Nemesis:
    """Does a number of steps. Without `loses_power` no step loses what was written."""

    faults: ClassVar[Sequence[Weighted]] = ()
    # The longest time between two faults.
    pause_ms_max: ClassVar[int] = 3_000

    def __init__(self, world: World, clients: list[str], *, loses_power: bool) -> None:
        self._world = world
        self._cluster = world.cluster
        self._network = world.cluster.network
        self._entropy = world.entropy.fork("nemesis")
        self._clients = clients
        self._lot = [
            each.fault
            for each in self.faults
            if loses_power or not each.loses_power
            for _ in range(each.weight)
        ]
        self._loses_power = loses_power
        self._repairs: list[asyncio.Task[None]] = []
        self._pending: list[Callable[[], None]] = []

    async def run(self, steps: int) -> None:
        """Ends in peace: all faults are repaired and all brokers serve."""
        self._change_weather()
        for _ in range(steps):
            await asyncio.sleep(self._entropy.between(10, self.pause_ms_max) / 1e3)
            self._check()
            fault = self._entropy.pick(self._lot)
            self._world.witness.note(fault.__name__)
            fault(self)
            self._check()
        await asyncio.sleep(self._entropy.between(10, self.pause_ms_max) / 1e3)
        await self._make_peace()

    def _check(self) -> None:
        self._cluster.check_faults()
        self._world.oracle.check()
        for repair in self._repairs:
            if repair.done():
                repair.result()

    async def _make_peace(self) -> None:
        self._world.witness.note("peace")
        self._world.claims.on_save = lambda _process: None
        while self._pending or not all(repair.done() for repair in self._repairs):
            # A repair may be followed by another one.
            while self._pending:
                self._pending.pop(0)()
            await asyncio.gather(*self._repairs)
        self._network.heal()
        self._network.conditions = Conditions()
        self._cluster.ensemble.lose_writes(0.0)
        for machine in self._cluster.all:
            self._make_whole(machine)
            # A log that went offline is opened at the next start.
            if machine.is_alive and machine.failed_life == machine.lives:
                machine.kill(loses_power=self._loses_power)
        await self._cluster.start(START_S_MAX)
        self._world.is_calm = True

    def _make_whole(self, machine: BrokerMachine) -> None:
        machine.death.disarm()
        machine.disk.faults.clear()
        machine.failed_directory.path = None
        machine.free_disk()

    # Repairs

    def _repair_later(self, ms_max: int, repair: Callable[[], None], *, ms_min: int = 1) -> None:
        """Repairs at a random time, at the latest when peace is made."""
        self._pending.append(repair)
        delay_s = self._entropy.between(ms_min, ms_max) / 1e3

        async def wait_and_repair() -> None:
            await asyncio.sleep(delay_s)
            if repair in self._pending:
                self._pending.remove(repair)
                repair()

        self._begin_repair(wait_and_repair())

    def _begin_repair(self, repair: Coroutine[Any, Any, None]) -> None:
        loop = asyncio.get_running_loop()
        self._repairs.append(loop.create_task(repair, name="repair"))

    def _restart_later(self, machine: BrokerMachine) -> None:
        def restart() -> None:
            self._make_whole(machine)
            if self._entropy.chance(0.15):
                # It dies again within its start.
                machine.dies_within(self._entropy.below(80), loses_power=self._loses_power)
                self._restart_later(machine)
            machine.switch_on()

        self._repair_later(self._entropy.pick((200, 2_000, 8_000)), restart)

    def _pick_machine(self) -> BrokerMachine:
        return self._entropy.pick(self._cluster.all)

    # The process and the machine

    def crash(self) -> None:
        self._kill(loses_power=False)

    def power_loss(self) -> None:
        self._kill(loses_power=True)

    def _kill(self, *, loses_power: bool) -> None:
        machine = self._pick_machine()
        machine.kill(loses_power=loses_power)
        self._restart_later(machine)

    def crash_in_the_middle(self) -> None:
        self._kill_in_the_middle(loses_power=False)

    def power_loss_in_the_middle(self) -> None:
        self._kill_in_the_middle(loses_power=True)

    def _kill_in_the_middle(self, *, loses_power: bool) -> None:
        machine = self._pick_machine()
        machine.dies_within(self._entropy.below(40), loses_power=loses_power)

        def finish() -> None:
            machine.kill(loses_power=loses_power)
            self._restart_later(machine)

        self._repair_later(2_000, finish)

    def clean_stop(self) -> None:
        machine = self._pick_machine()

        async def stop() -> None:
            if machine.is_up:
                await machine.stop()
            self._restart_later(machine)

        loop = asyncio.get_running_loop()
        self._repairs.append(loop.create_task(stop(), name="clean stop"))

    def pause(self) -> None:
        """Up to several session timeouts."""
        self._pause(self._pick_machine(), self._entropy.pick((500, 3_000, 15_000)))

    def _pause(self, machine: BrokerMachine, ms_max: int) -> None:
        process = machine.pause()
        if process is not None:
            self._repair_later(ms_max, lambda: machine.resume(process))

    def pause_within_a_snapshot(self) -> None:
        """The next controller that saves one stands still meanwhile, and may be deposed."""
        claims = self._world.claims

        def pause(process: str) -> None:
            claims.on_save = lambda _process: None
            for machine in self._cluster.all:
                if machine.process_name == process:
                    self._pause_soon(machine)

        claims.on_save = pause

    def _pause_soon(self, machine: BrokerMachine) -> None:
        process = machine.process_name
        delay_s = self._entropy.between(0, 80) / 1e3

        async def wait_and_pause() -> None:
            await asyncio.sleep(delay_s)
            if machine.process_name == process:
                self._pause(machine, 3 * SESSION_TIMEOUT_MS)

        # Not in the context of the process, which is to stand still.
        task = asyncio.get_running_loop().create_task(
            wait_and_pause(), name="pause", context=kernel_context()
        )
        self._repairs.append(task)

    def jump_clock(self) -> None:
        self._pick_machine().clock.jump_wall(
            self._entropy.between(-CLOCK_JUMP_MS_MAX, CLOCK_JUMP_MS_MAX)
        )

    # The network

    def reset_connections(self) -> None:
        hosts = [*self._clients, *self._cluster.hosts]
        self._network.reset(self._entropy.pick(hosts), self._pick_machine().host)

    def cut_off_from_a_peer(self) -> None:
        host = self._pick_machine().host
        self._cut(host, [self._entropy.pick(self._peers(host))])

    def cut_off_from_all_peers(self) -> None:
        host = self._pick_machine().host
        self._cut(host, self._peers(host))

    def cut_off_from_the_ensemble(self) -> None:
        self._cut(self._pick_machine().host, [sessions.HOST])

    def expire_a_session(self) -> None:
        """Of a broker that lives, and is heard: the servers' clocks are their own."""
        self._cluster.ensemble.expire(self._pick_machine().host)

    def the_ensemble_changes_its_leader(self) -> None:
        self._cluster.ensemble.servers.change_leader(self._entropy.between(10, 2_000) / 1e3)

    def cut_off_from_clients(self) -> None:
        self._cut(self._pick_machine().host, self._clients)

    def cut_off_a_client(self) -> None:
        self._cut(self._entropy.pick(self._clients), self._cluster.hosts)

    def _peers(self, host: str) -> list[str]:
        return [other for other in self._cluster.hosts if other != host]

    def _cut(self, host: str, others: list[str]) -> None:
        """Both ways, or one of them."""
        ways = self._entropy.pick(((True, True), (True, False), (False, True)))
        for other in others:
            if ways[0]:
                self._network.block(host, other)
            if ways[1]:
                self._network.block(other, host)

        def heal() -> None:
            for other in others:
                self._network.heal(host, other)

        self._repair_later(self._entropy.pick((1_000, 12_000)), heal)

    # The disk

    def fill_disk(self) -> None:
        machine = self._pick_machine()
        # A start may need space, too.
        machine.disk_fails()
        machine.fill_disk(self._entropy.pick((0, 100, 5_000, 40_000)))
        self._repair_later(3_000, machine.free_disk)

    def fail_a_write(self) -> None:
        self._fail_disk(lambda machine: machine.disk.faults.fail_next("write", SEGMENTS))

    def fail_a_read(self) -> None:
        self._fail_disk(lambda machine: machine.disk.faults.fail_next_read(LOGS))

    def fail_a_sync(self) -> None:
        """What a failed sync was to save may be gone for good: only a new boot tells."""
        self._fail_disk(
            lambda machine: machine.disk.faults.fail_next_sync(SEGMENTS), loses_power=True
        )

    def lose_a_log_directory(self) -> None:
        """The second one, in the middle of a life or from its start on.

        In the middle of a life its syncs fail, and no mark of that can be written there: as after
        any failed sync, only a new boot tells what is gone for good.
        """
        machine = self._pick_machine()
        is_from_the_start = self._entropy.chance(0.7)
        if is_from_the_start:
            machine.kill()

        def fail(machine: BrokerMachine) -> None:
            machine.failed_directory.path = SECOND_DIRECTORY

        self._fail_disk(
            fail, machine=machine, loses_power=self._loses_power and not is_from_the_start
        )

    def _fail_disk(
        self,
        fail: Callable[[BrokerMachine], None],
        *,
        machine: BrokerMachine | None = None,
        loses_power: bool = False,
    ) -> None:
        machine = machine or self._pick_machine()
        machine.switch_on()
        machine.disk_fails()
        fail(machine)

        def restart() -> None:
            machine.kill(loses_power=loses_power)
            self._restart_later(machine)

        self._repair_later(3_000, restart)

    # The weather

    def _change_weather(self) -> None:
        entropy = self._entropy
        self._network.conditions = Conditions(
            split_rate=entropy.pick((0.0, 0.1, 0.5)),
            gather_rate=entropy.pick((0.0, 0.3, 0.8)),
            reset_rate=entropy.pick((0.0, 0.0, 0.003)),
            window_bytes=entropy.pick((1_000, 8_000, 65_536)),
            late_read=entropy.chance(0.5),
        )
        self._cluster.ensemble.lose_writes(entropy.pick((0.0, 0.02, 0.1, 0.1)))
        for machine in self._cluster.all:
            machine.disk.faults.rates = FaultRates(
                short_write=entropy.pick((0.0, 0.2)),
                cold=entropy.pick((0.0, 0.0, 0.5)),
                stall=entropy.pick((0.0, 0.0, 0.01)),
                stall_ms_max=200,
            )


Nemesis.faults = (
    Weighted(Nemesis.crash, 3),
    Weighted(Nemesis.crash_in_the_middle, 3),
    Weighted(Nemesis.clean_stop, 2),
    Weighted(Nemesis.pause, 3),
    Weighted(Nemesis.pause_within_a_snapshot, 4),
    Weighted(Nemesis.jump_clock, 1),
    Weighted(Nemesis.reset_connections, 2),
    Weighted(Nemesis.cut_off_from_a_peer, 2),
    Weighted(Nemesis.cut_off_from_all_peers, 1),
    Weighted(Nemesis.cut_off_from_the_ensemble, 3),
    Weighted(Nemesis.expire_a_session, 3),
    Weighted(Nemesis.the_ensemble_changes_its_leader, 2),
    Weighted(Nemesis.cut_off_from_clients, 1),
    Weighted(Nemesis.cut_off_a_client, 1),
    Weighted(Nemesis.fill_disk, 1),
    Weighted(Nemesis.fail_a_write, 1),
    Weighted(Nemesis.fail_a_read, 1),
    Weighted(Nemesis.lose_a_log_directory, 4),
    Weighted(Nemesis.power_loss, 3, loses_power=True),
    Weighted(Nemesis.power_loss_in_the_middle, 3, loses_power=True),
    Weighted(Nemesis.fail_a_sync, 1, loses_power=True),
)
