"""Faults that go for coordinators, and for the moment in which a transaction ends."""

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.transaction_marker import TransactionMarker
from ottla.storage.producers.entry import EPOCH_BUMPED_SINCE
from tests.sim.cluster import sessions
from tests.sim.cluster.cluster import BrokerMachine
from tests.sim.cluster.nemesis import SESSION_TIMEOUT_MS, Weighted
from tests.sim.cluster.oracle import PartitionKey
from tests.sim.replication.aimed_faults import AimedNemesis
from tests.sim.replication.nemesis import DEPOSED_MS_MAX
from tests.sim.replication.transactions.world import ClusterTransactions

# How long to wait for the end of a transaction, and how often to look.
END_S_MAX = 1.0
LOOK_S = 0.005
# Between the request and its answer.
STRIKE_MS_MAX = 40
# How long a deposed coordinator reaches the leaders to which it owes markers.
REPEATED_MS_MIN, REPEATED_MS_MAX = 1_500, 4_000


class TransactionalNemesis(AimedNemesis):
    """Leaders of coordinators' partitions are hit as often as those of others, and more at ends."""

    def __init__(
        self, transactions: ClusterTransactions, clients: list[str], *, loses_power: bool
    ) -> None:
        super().__init__(transactions.base, clients, loses_power=loses_power)
        self._transactions = transactions

    def _pick_leader(self) -> BrokerMachine:
        if self._entropy.chance(0.5):
            return super()._pick_leader()
        return self._leader_of(self._entropy.pick(self._transactions.keys))

    def jump_clock(self) -> None:
        super().jump_clock()
        self._transactions.history.clock_jumps += 1

    def strike_while_a_transaction_ends(self) -> None:
        """Between the decision, its markers, their record and the answer."""
        self._begin_repair(self._wait_and_strike())

    async def _wait_and_strike(self) -> None:
        looks = int(END_S_MAX / LOOK_S)
        while looks and not self._transactions.ending:
            looks -= 1
            await asyncio.sleep(LOOK_S)
        if self._entropy.chance(0.4):
            # Whoever loses its connection now does not live to repeat its request.
            self._transactions.crashes += 1
        if self._entropy.chance(0.5):
            await asyncio.sleep(self._entropy.between(0, STRIKE_MS_MAX) / 1e3)
        keys = self._transactions.state_keys
        if self._entropy.chance(0.2):
            keys = self._transactions.keys
        self._strike(self._leader_of(self._entropy.pick(keys)))

    def depose_a_coordinator_before_it_commits(self) -> None:
        """The next decision of a transaction's end is appended, and its successor does not get it.

        Other brokers do, and markers that are sent too early reach them.
        """
        oracle, transactions = self._world.oracle, self._transactions
        crashes = self._entropy.chance(0.7)

        def strike(key: PartitionKey, broker_id: int) -> None:
            if key not in transactions.state_keys or not transactions.ending:
                return
            oracle.on_append.remove(strike)
            coordinator, successor = self._cluster.machines[broker_id], self._successor_of(key)
            if successor is None or successor is coordinator:
                return
            # Now: the answer to a fetch that waits there must not get out.
            self._block(coordinator.host, successor.host)
            self._soon(lambda: depose(coordinator, successor))

        def depose(coordinator: BrokerMachine, successor: BrokerMachine) -> None:
            if crashes:
                # Producers lose their connections, and do not live to repeat their requests.
                transactions.crashes += 1
                for client in self._clients:
                    self._network.reset(client, coordinator.host)
            self._depose(coordinator)
            self._repair_later(
                2 * DEPOSED_MS_MAX,
                lambda: self._network.heal(coordinator.host, successor.host),
                ms_min=DEPOSED_MS_MAX // 2,
            )

        oracle.on_append.append(strike)

    def a_deposed_coordinator_repeats_markers(self) -> None:
        """They are sent before it is deposed, and arrive in the producer's next transaction.

        Those of transaction version 2 bump the epoch: nothing can come of them.
        """
        repeated_s = self._entropy.between(REPEATED_MS_MIN, REPEATED_MS_MAX) / 1e3

        def hold(process: str, marker: TransactionMarker, places: Sequence[TopicPartition]) -> None:
            coordinator = self._machine_of(process)
            if coordinator is None or marker.transaction_version >= EPOCH_BUMPED_SINCE:
                return
            if any(self._has_open(place, marker) for place in places):
                self._world.markers.remove(hold)
                self._cluster.closed_to_clients.add(coordinator.host)
                # Now: they must not arrive before those of the successor.
                for peer in self._peers(coordinator.host):
                    self._block(coordinator.host, peer)
                self._soon(lambda: self._begin_repair(repeat(coordinator, marker, places)))

        async def repeat(
            coordinator: BrokerMachine, marker: TransactionMarker, places: Sequence[TopicPartition]
        ) -> None:
            self._world.witness.note(f"  {coordinator.host} is deposed, and owes markers")
            # Nothing that it begins now can be committed. Clients must not wait for it.
            for client in self._clients:
                self._network.reset(client, coordinator.host)
            self._block(coordinator.host, sessions.HOST)
            self._cluster.ensemble.expire(coordinator.host)
            await self._until(
                lambda: any(self._has_open(place, marker, is_next=True) for place in places)
            )
            for peer in self._peers(coordinator.host):
                self._network.heal(coordinator.host, peer)
            await asyncio.sleep(repeated_s)
            self._network.heal(coordinator.host, sessions.HOST)
            self._cluster.closed_to_clients.clear()

        # One at a time: two of three brokers could commit nothing.
        if not self._world.markers and not self._cluster.closed_to_clients:
            self._world.markers.append(hold)

    def _machine_of(self, process: str) -> BrokerMachine | None:
        for machine in self._cluster.all:
            if machine.process_name == process:
                return machine
        return None

    def _has_open(
        self, place: TopicPartition, marker: TransactionMarker, *, is_next: bool = False
    ) -> bool:
        """Whether a transaction is open in a partition that has the epoch of a marker.

        `is_next`: a later coordinator has ended the one before it.
        """
        target = self._transactions.targets.get(place)
        if target is None:
            return False
        replica = self._world.oracle.replica(target.key, self._leader_of(target.key).broker_id)
        log = None if replica is None else replica.log
        entry = None if log is None else log.producers.get(marker.producer_id)
        return (
            entry is not None
            and entry.has_open_transaction
            and entry.epoch == marker.producer_epoch
            and (entry.coordinator_epoch > marker.coordinator_epoch or not is_next)
        )

    def _strike(self, machine: BrokerMachine) -> None:
        match self._entropy.below(7):
            case 0:
                self._restart_quickly(machine, loses_power=False)
            case 1:
                machine.kill()
                self._restart_later(machine)
            case 2:
                self._pause(machine, self._entropy.pick((500, 6_000, 15_000)))
            case 3:
                self._cut(machine.host, [*self._peers(machine.host), sessions.HOST])
            case 4 | 5:
                self._deafen(machine)
            case _:
                self._cluster.ensemble.expire(machine.host)

    def _deafen(self, machine: BrokerMachine) -> None:
        """It is heard, and hears no peer: it commits nothing, and its markers arrive."""
        others = [*self._peers(machine.host), sessions.HOST]
        for other in others:
            self._network.block(other, machine.host)

        def heal() -> None:
            for other in others:
                self._network.heal(machine.host, other)

        self._repair_later(3 * SESSION_TIMEOUT_MS, heal, ms_min=SESSION_TIMEOUT_MS)

    faults: ClassVar = (
        *AimedNemesis.faults,
        Weighted(strike_while_a_transaction_ends, 20),
        Weighted(depose_a_coordinator_before_it_commits, 15),
    )
    aimed_faults: ClassVar = (Weighted(a_deposed_coordinator_repeats_markers, 300),)
