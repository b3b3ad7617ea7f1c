"""The faults of a cluster with replicated partitions: those of any cluster, and more at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from tests.sim.cluster import sessions
from tests.sim.cluster.cluster import BrokerMachine
from tests.sim.cluster.nemesis import SESSION_TIMEOUT_MS, Nemesis, Weighted
from tests.sim.cluster.oracle import PartitionKey
from tests.sim.replication.world import LAG_TIME_MAX_MS, ReplicationWorld
from tests.sim.seams.owner import kernel_context

QUICK_RESTART_MS_MAX = 100
# How long a leader appends what its successor does not get.
APART_MS_MAX = 600
# How long a broker is without the ensemble after it was deposed.
DEPOSED_MS_MAX = 2_000


class ReplicationNemesis(Nemesis):
    """Most faults hit one broker. A leader may go on with its clients when its peers miss it."""

    pause_ms_max = 2_500

    def __init__(self, world: ReplicationWorld, clients: list[str], *, loses_power: bool) -> None:
        super().__init__(world, clients, loses_power=loses_power)
        self._world: ReplicationWorld = world
        self._timers: list[asyncio.Task[None]] = []
        self._makes_peace = False

    def _pick_leader(self) -> BrokerMachine:
        """The leader of one of the partitions, as far as anybody knows."""
        return self._leader_of(self._entropy.pick(self._world.used_partitions))

    def _leader_of(self, key: PartitionKey) -> BrokerMachine:
        """Any broker if nobody leads it."""
        record = self._world.oracle.losses.newest[key]
        if record.leader is None:
            return self._pick_machine()
        return self._cluster.machines[record.leader.broker_id]

    def _successor_of(self, key: PartitionKey) -> BrokerMachine | None:
        """The broker that leads a partition next, if its leader goes; None if nobody can."""
        record = self._world.oracle.losses.newest[key]
        if record.leader is None:
            return None
        candidates = {each.broker_id for each in (*record.isr, *record.elr)}
        for broker_id in record.replicas:
            machine = self._cluster.machines[broker_id]
            if broker_id != record.leader.broker_id and broker_id in candidates and machine.is_up:
                return machine
        return None

    def _soon(self, act: Callable[[], None]) -> None:
        """In no process: the caller may be a probe within one, which is to go on."""
        asyncio.get_running_loop().call_soon(act, context=kernel_context())

    # The weather

    def _change_weather(self) -> None:
        super()._change_weather()
        self._world.lost_isr_answers = self._entropy.pick((0.0, 0.3, 0.8))

    def _begin_repair(self, repair: Coroutine[Any, Any, None]) -> None:
        loop = asyncio.get_running_loop()
        self._timers.append(loop.create_task(repair, name="repair"))

    def _check(self) -> None:
        super()._check()
        for timer in self._timers:
            if timer.done():
                timer.result()

    async def _make_peace(self) -> None:
        """At once: no repair is waited for that is not due."""
        self._makes_peace = True
        for timer in self._timers:
            timer.cancel()
        self._world.oracle.on_append.clear()
        self._world.lost_isr_answers = 0.0
        await super()._make_peace()

    # The process and the machine

    def crash_and_quick_restart(self) -> None:
        """Within its session: its peers hear of the new incarnation only."""
        self._restart_quickly(self._pick_leader(), loses_power=False)

    def power_loss_and_quick_restart(self) -> None:
        """Of a leader or of a follower."""
        machine = self._pick_leader() if self._entropy.chance(0.5) else self._pick_machine()
        self._restart_quickly(machine, loses_power=True)

    def _restart_quickly(self, machine: BrokerMachine, *, loses_power: bool) -> None:
        machine.kill(loses_power=loses_power)
        self._repair_later(QUICK_RESTART_MS_MAX, machine.switch_on)

    def crash_of_all(self) -> None:
        for machine in self._cluster.all:
            machine.kill()
            self._restart_later(machine)

    def power_loss_of_two(self) -> None:
        first = self._entropy.pick(self._cluster.all)
        for machine in self._cluster.all:
            if machine is not first:
                machine.kill(loses_power=True)
                self._restart_later(machine)

    def pause_a_leader(self) -> None:
        """Up to several session timeouts: it is deposed, and does not know it."""
        self._pause(self._pick_leader(), self._entropy.pick((500, 6_000, 15_000)))

    # The disk

    def flip_a_bit(self) -> None:
        """In a log of a broker that is killed: the recovery of its next start finds it.

        Not in a batch that looks like a write that was not finished if it is damaged, nor below
        the recovery point, where nobody looks.
        """
        machine = self._pick_machine()
        machine.kill()
        self._restart_later(machine)
        damageable = self._world.damageable(machine)
        if not damageable:
            return
        key, path, positions = self._entropy.pick(damageable)
        self._world.damage(key, machine)
        machine.disk.flip_bit(path, self._entropy.pick(positions))

    # The network

    def isolate_a_leader(self) -> None:
        """Clients still reach it, and it cannot commit what they send."""
        host = self._pick_leader().host
        self._cut(host, [*self._peers(host), sessions.HOST])

    def cut_off_a_follower(self) -> None:
        """One way or both: it lags, and leaves the ISR."""
        host = self._pick_leader().host
        self._cut(host, [self._entropy.pick(self._peers(host))])

    def deafen_a_leader_while_a_follower_returns(self) -> None:
        """The follower joins the ISR, and the leader does not hear of it for a while."""
        leader = self._pick_leader().host
        follower = self._entropy.pick(self._peers(leader))
        self._block(leader, follower)

        def heal() -> None:
            self._network.heal(leader, sessions.HOST)

        def deafen() -> None:
            self._network.heal(leader, follower)
            self._block(leader, sessions.HOST)
            self._repair_later(SESSION_TIMEOUT_MS, heal)

        # By then the follower has left the ISR.
        self._repair_later(3 * LAG_TIME_MAX_MS, deafen, ms_min=2 * LAG_TIME_MAX_MS)

    def _block(self, host: str, other: str) -> None:
        self._network.block(host, other)
        self._network.block(other, host)

    def expire_the_session_of_a_leader(self) -> None:
        self._cluster.ensemble.expire(self._pick_leader().host)

    def depose_two_leaders_in_a_row(self) -> None:
        """The first successor lacks records that the next leader has, and appends none itself."""
        key = self._entropy.pick(self._world.used_partitions)
        leader, successor = self._leader_of(key), self._successor_of(key)
        if successor is None or leader is successor:
            return
        self._block(leader.host, successor.host)
        for client in self._clients:
            self._network.block(client, successor.host)

        def heal() -> None:
            for client in self._clients:
                self._network.heal(client, successor.host)
            self._network.heal(leader.host, successor.host)

        def depose_again(elected: PartitionKey, broker_id: int) -> None:
            if (elected, broker_id) == (key, successor.broker_id):
                self._world.oracle.on_election.remove(depose_again)
                self._soon(lambda: self._depose(successor))

        def depose() -> None:
            self._world.oracle.on_election.append(depose_again)
            self._depose(leader)
            self._repair_later(2 * DEPOSED_MS_MAX, heal, ms_min=DEPOSED_MS_MAX // 2)

        self._repair_later(APART_MS_MAX, depose)

    def _depose(self, machine: BrokerMachine) -> None:
        """Its session ends, and it does not hear of that for a while."""
        if self._makes_peace:
            return
        self._world.witness.note(f"  {machine.host} is deposed")
        self._block(machine.host, sessions.HOST)
        self._cluster.ensemble.expire(machine.host)
        self._repair_later(DEPOSED_MS_MAX, lambda: self._network.heal(machine.host, sessions.HOST))

    faults: ClassVar = (
        *Nemesis.faults,
        Weighted(crash_and_quick_restart, 4),
        Weighted(crash_of_all, 1),
        Weighted(pause_a_leader, 3),
        Weighted(isolate_a_leader, 8),
        Weighted(cut_off_a_follower, 5),
        Weighted(deafen_a_leader_while_a_follower_returns, 6),
        Weighted(expire_the_session_of_a_leader, 4),
        Weighted(depose_two_leaders_in_a_row, 8),
        Weighted(flip_a_bit, 4),
        Weighted(power_loss_and_quick_restart, 4, loses_power=True),
        Weighted(power_loss_of_two, 1, loses_power=True),
    )
