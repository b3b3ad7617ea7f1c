"""Faults of several steps, each aimed at a moment that random faults hardly meet.

Only a share of the seeds has them, so that the others do what they did before there were any.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from ottla.metadata.controller.isr_changes import AskedIsr
from ottla.metadata.values import BrokerState
from tests.sim.cluster import sessions
from tests.sim.cluster.cluster import BrokerMachine
from tests.sim.cluster.nemesis import Weighted
from tests.sim.cluster.oracle import PartitionKey
from tests.sim.replication.nemesis import ReplicationNemesis
from tests.sim.replication.world import ReplicationWorld
from tests.sim.seams.entropy import SimEntropy

SHARE = 0.25
# How often to look whether the moment has come, and how long to wait for it.
LOOK_S = 0.02
MOMENT_S_MAX = 6.0
# How long a leader does not hear that its follower has joined: less than its session lasts.
DEAF_MS_MIN, DEAF_MS_MAX = 1_000, 3_500
# How long a leader may ask for the ISR with a follower that has not fetched from it yet.
UNFETCHED_MS_MIN, UNFETCHED_MS_MAX = 300, 1_500


def has_aimed_faults(entropy: SimEntropy) -> bool:
    """Whether a seed has aimed faults."""
    return entropy.fork("aimed faults").chance(SHARE)


class AimedNemesis(ReplicationNemesis):
    """About half of the faults are aimed ones, under the seeds that have them."""

    aimed_faults: ClassVar[Sequence[Weighted]] = ()

    def __init__(self, world: ReplicationWorld, clients: list[str], *, loses_power: bool) -> None:
        super().__init__(world, clients, loses_power=loses_power)
        if has_aimed_faults(world.entropy):
            self._lot += [
                each.fault
                for each in self.aimed_faults
                if loses_power or not each.loses_power
                for _ in range(each.weight)
            ]

    async def _make_peace(self) -> None:
        self._world.isr_requests.clear()
        self._world.isr_answers.clear()
        self._world.markers.clear()
        self._cluster.closed_to_clients.clear()
        await super()._make_peace()

    # The ISR

    def lose_the_answer_that_a_follower_has_joined(self) -> None:
        """The leader does not hear of the new ISR from anybody, and the follower gets no record."""
        keys = [key for key in self._world.used_partitions if self._has_other_controller(key)]
        if not keys:
            return
        key = self._entropy.pick(keys)
        leader = self._leader_of(key)
        replicas = self._world.oracle.losses.newest[key].replicas
        others = [each for each in replicas if each != leader.broker_id]
        if not others:
            return
        follower = self._cluster.machines[self._entropy.pick(others)]
        deaf_s = self._entropy.between(DEAF_MS_MIN, DEAF_MS_MAX) / 1e3
        kills_leader = self._entropy.chance(0.3)
        # It leaves the ISR, and cannot join it again before it fetches.
        self._block(leader.host, follower.host)
        self._cluster.ensemble.expire(follower.host)

        def asks(asked: Sequence[AskedIsr]) -> bool:
            return any(
                (each.topic_id, each.partition) == key
                and follower.broker_id in {member.broker_id for member in each.isr}
                for each in asked
            )

        def deafen(asked: Sequence[AskedIsr]) -> None:
            if asks(asked) and deafen in self._world.isr_requests:
                self._world.isr_requests.remove(deafen)
                self._world.witness.note(f"  {leader.host} is to have {follower.host} in the ISR")
                self._block(leader.host, sessions.HOST)
                self._soon(lambda: self._begin_repair(heal_later()))

        def lose(asked: Sequence[AskedIsr]) -> bool:
            if not asks(asked):
                return False
            self._block(leader.host, follower.host)
            return True

        async def heal_later() -> None:
            await asyncio.sleep(deaf_s)
            self._world.isr_answers.remove(lose)
            if kills_leader:
                leader.kill()
                self._restart_later(leader)
            self._network.heal(leader.host, follower.host)
            self._network.heal(leader.host, sessions.HOST)

        async def arm() -> None:
            await self._until(lambda: self._may_join_again(key, leader, follower))
            if self._leader_of(key) is leader and not leader.is_controller:
                self._world.isr_requests.append(deafen)
                self._world.isr_answers.append(lose)
            self._network.heal(leader.host, follower.host)

        self._begin_repair(arm())

    def _has_other_controller(self, key: PartitionKey) -> bool:
        """Whether a partition is led, and not by the controller."""
        leader = self._world.oracle.losses.newest[key].leader
        return leader is not None and not self._cluster.machines[leader.broker_id].is_controller

    def _may_join_again(
        self, key: PartitionKey, leader: BrokerMachine, follower: BrokerMachine
    ) -> bool:
        """Whether a follower has left the ISR and is up again, as its leader knows."""
        record = self._world.oracle.losses.newest[key]
        is_out = follower.broker_id not in {member.broker_id for member in record.isr}
        return is_out and self._is_up_for(leader, follower)

    def _is_up_for(self, leader: BrokerMachine, follower: BrokerMachine) -> bool:
        image = self._world.oracle.images.get(leader.process_name)
        broker = None if image is None else image.brokers.get(follower.broker_id)
        return follower.is_up and broker is not None and broker.state is BrokerState.UP

    def a_follower_loses_what_its_leader_remembers(self) -> None:
        """It is up again and has not fetched when its leader goes."""
        losses = self._world.oracle.losses
        chosen = [
            (key, successor)
            for key in self._world.used_partitions
            if (successor := self._successor_of(key)) is not None
            and losses.may_be_damaged(key, successor.broker_id)
            and min(losses.newest[key].min_isr, len(losses.newest[key].replicas)) > 1
        ]
        if not chosen:
            return
        key, follower = self._entropy.pick(chosen)
        leader = self._leader_of(key)
        incarnation = _incarnation(self._world, leader, follower)
        unfetched_s = self._entropy.between(UNFETCHED_MS_MIN, UNFETCHED_MS_MAX) / 1e3
        self._block(leader.host, follower.host)
        self._restart_quickly(follower, loses_power=True)

        async def strike() -> None:
            await self._until(
                lambda: (
                    _incarnation(self._world, leader, follower) != incarnation
                    and self._is_up_for(leader, follower)
                )
            )
            await asyncio.sleep(unfetched_s)
            if self._leader_of(key) is leader:
                self._world.witness.note(f"  {leader.host} goes before {follower.host} has fetched")
                leader.kill()
                self._cluster.ensemble.expire(leader.host)
                self._restart_later(leader)
            self._network.heal(leader.host, follower.host)

        self._begin_repair(strike())

    # Moments

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Or until it has taken too long."""
        looks = int(MOMENT_S_MAX / LOOK_S)
        while looks and not condition():
            looks -= 1
            await asyncio.sleep(LOOK_S)


def _incarnation(
    world: ReplicationWorld, leader: BrokerMachine, follower: BrokerMachine
) -> object | None:
    """The follower's incarnation that its leader knows."""
    image = world.oracle.images.get(leader.process_name)
    broker = None if image is None else image.brokers.get(follower.broker_id)
    return None if broker is None else broker.incarnation


AimedNemesis.aimed_faults = (
    Weighted(AimedNemesis.lose_the_answer_that_a_follower_has_joined, 40),
    Weighted(AimedNemesis.a_follower_loses_what_its_leader_remembers, 120, loses_power=True),
)
