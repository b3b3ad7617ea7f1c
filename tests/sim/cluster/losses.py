"""One seed of a cluster without flushes, in which records are lost: never without a report.

One broker after another is killed, loses its power, or finds a log damaged. Each time, all
partitions are read. Records that a broker acknowledged may be missing only from partitions whose
possible loss a controller has reported, and only where disks were not intact.
"""

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.batch import records
from tests.sim.broker.consumers import batches_of
from tests.sim.broker.witness import Witness
from tests.sim.cluster.admin import Admin
from tests.sim.cluster.cluster import BrokerMachine, Cluster
from tests.sim.cluster.oracle import Oracle
from tests.sim.cluster.probes import probing
from tests.sim.cluster.routing import STALE_METADATA, Routing, TryAgain
from tests.sim.cluster.scenario import FETCH_VERSION
from tests.sim.cluster.world import MAIN_TOPIC, Shape, World
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, wanted

EVENTS_PER_SEED = 3
BATCHES_PER_EVENT = 12
PRODUCE_VERSION = 13
START_S_MAX = 30.0
# How long it may take until every partition is led.
LED_S_MAX = 20.0
RUN_S_MAX = 300.0
# A controller reports a loss after it has committed the new leader.
REPORT_S_MAX = 0.5
# In the records of the first batch, behind its header: the checksum covers it.
DAMAGED_POSITION = 65
DISK_OPERATIONS_PER_START = 80


class Event(Enum):
    """What happens to a broker. Its disks are intact after the first two."""

    CRASH = "crash"
    POWER_LOSS_AFTER_A_CLEAN_STOP = "power loss after a clean stop"
    POWER_LOSS = "power loss"
    DAMAGE = "damage"

    @property
    def leaves_disks_intact(self) -> bool:
        return self in (Event.CRASH, Event.POWER_LOSS_AFTER_A_CLEAN_STOP)


class UnreportedLoss(AssertionError):
    """Acknowledged records are missing, and no controller has reported a possible loss."""


@dataclass
class Losses:
    """What the events of a seed led to, by partitions."""

    lost: int = 0
    reported: int = 0
    events: list[Event] = field(default_factory=list)


class LossScenario:
    """Its records are not flushed: a power loss loses some of them."""

    def __init__(self, seed: int, witness: Witness) -> None:
        self._seed = seed
        entropy = SimEntropy(seed).fork("losses")
        self._cluster = Cluster(
            seed, 3, witness, **{"log.flush.offset.checkpoint.interval.ms": "3600000"}
        )
        witness.clock = self._cluster.all[0].clock
        self._entropy = entropy
        self._witness = witness
        self._world = World(self._cluster, Shape(), entropy, witness, Oracle())
        self._routing = Routing(self._world, "client", entropy.fork("routing"))
        self._written = 0
        # By partition: the acknowledged records, in order.
        self._values: list[list[bytes]] = [[] for _ in range(self._world.shape.partitions)]
        self._losses = Losses()
        # The brokers that have flushed their logs by a clean stop.
        self._flushed: set[int] = set()

    def run(self) -> Losses:
        with probing(self._world.oracle, self._world.claims):
            run(self._run(), self._seed, clock=self._cluster.all[0].clock)
        return self._losses

    async def _run(self) -> None:
        async with asyncio.timeout(RUN_S_MAX):
            serving = asyncio.get_running_loop().create_task(self._cluster.ensemble.run())
            await self._cluster.start(START_S_MAX)
            await Admin(self._world).create_main_topic()
            for _ in range(EVENTS_PER_SEED):
                for _ in range(BATCHES_PER_EVENT):
                    await self._write(self._entropy.below(len(self._values)))
                await self._suffer()
            for machine in self._cluster.all:
                await machine.stop()
            self._cluster.check_faults()
            self._world.oracle.check()
            serving.cancel()

    async def _suffer(self) -> None:
        machine, event = self._entropy.pick(self._cluster.all), self._entropy.pick(tuple(Event))
        if event is Event.DAMAGE and machine.broker_id in self._flushed:
            # Nobody looks for damage in records that were flushed.
            event = Event.CRASH
        self._losses.events.append(event)
        self._witness.note(f"{machine.host}: {event.value}")
        reported_before = len(self._cluster.possible_losses)
        if event is Event.POWER_LOSS_AFTER_A_CLEAN_STOP:
            await machine.stop()
            self._flushed.add(machine.broker_id)
        machine.kill(loses_power=event.name.startswith("POWER"))
        if event is Event.DAMAGE:
            self._damage_a_log(machine)
        self._routing.close()
        if self._entropy.chance(0.4):
            await self._die_again(machine)
        await machine.until_up(START_S_MAX)
        logs = [await self._read(index) for index in range(len(self._values))]
        await asyncio.sleep(REPORT_S_MAX)
        reported = set(self._cluster.possible_losses[reported_before:])
        for index, log in enumerate(logs):
            self._check(index, log, event, machine, is_reported=f"{MAIN_TOPIC}-{index}" in reported)

    def _damage_a_log(self, machine: BrokerMachine) -> None:
        paths = sorted(
            path
            for path, content in machine.disk.files().items()
            if path.endswith(".log") and f"/{MAIN_TOPIC}-" in path
            if len(content) > DAMAGED_POSITION
        )
        if paths:
            machine.disk.flip_bit(self._entropy.pick(paths), DAMAGED_POSITION)

    async def _die_again(self, machine: BrokerMachine) -> None:
        """Within its start, perhaps after the recovery of its logs. A kill loses nothing."""
        machine.dies_within(self._entropy.below(DISK_OPERATIONS_PER_START), loses_power=False)
        machine.switch_on()
        await asyncio.sleep(self._entropy.between(1, 500) / 1e3)
        machine.kill()

    def _check(
        self,
        index: int,
        log: list[bytes],
        event: Event,
        machine: BrokerMachine,
        *,
        is_reported: bool,
    ) -> None:
        values, name = self._values[index], f"{MAIN_TOPIC}-{index}"
        assert values[: len(log)] == log, f"{name} has other records than were acknowledged"
        is_lost = len(log) < len(values)
        if is_lost and not is_reported:
            raise UnreportedLoss(
                f"{name} has {len(log)} of {len(values)} records after a {event.value} of"
                f" {machine.host}, and no loss was reported"
            )
        is_here = machine.broker_id in self._world.replicas[self._world.main_id, index]
        if is_reported and (event.leaves_disks_intact or not is_here):
            raise AssertionError(f"a loss of {name} was reported after a {event.value}")
        self._losses.lost += is_lost
        self._losses.reported += is_reported
        self._values[index] = log

    # Requests

    async def _write(self, index: int) -> None:
        self._written += 1
        value = b"%d" % self._written + b"." * self._entropy.pick((0, 100, 2_000))
        content = batch(value, timestamp_ms=self._cluster.wall_ms())
        request = produce(self._world.main_id, content, partition=index)
        error_code = ErrorCode.UNKNOWN_TOPIC_ID
        while error_code in STALE_METADATA:
            _, line = await self._leader(index)
            error_code = only(await line.line.ask(request, PRODUCE_VERSION)).error_code
        assert error_code == ErrorCode.NONE, ErrorCode(error_code).name
        self._values[index].append(value)

    async def _read(self, index: int) -> list[bytes]:
        values: list[bytes] = []
        _, line = await self._leader(index)
        while True:
            request = fetch(self._world.main_id, wanted(index, len(values)))
            result: Any = only(await line.line.ask(request, FETCH_VERSION))
            assert result.error_code == ErrorCode.NONE, result
            batches = list(batches_of(result.records, len(values)))
            for _, content in batches:
                values += [record.value or b"" for record in records(content)]
            if not batches:
                return values

    async def _leader(self, index: int) -> Any:
        """TimeoutError if nobody leads within the time that an election may take."""
        async with asyncio.timeout(LED_S_MAX):
            while True:
                self._routing.forget(self._world.main_id, index)
                try:
                    return await self._routing.leader(MAIN_TOPIC, self._world.main_id, index)
                except (TryAgain, OSError):
                    await asyncio.sleep(0.1)
