"""One seed: a cluster, its clients, the faults, and the checks in the end."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.batch import records
from tests.sim.broker.consumers import batches_of
from tests.sim.broker.crowd import Client
from tests.sim.broker.witness import Witness
from tests.sim.cluster.admin import Admin
from tests.sim.cluster.cluster import Cluster
from tests.sim.cluster.config_changer import ConfigChanger
from tests.sim.cluster.consumers import Consumer
from tests.sim.cluster.mover import Mover
from tests.sim.cluster.nemesis import Nemesis
from tests.sim.cluster.oracle import InvariantBroken, Oracle, check_settled, not_serving
from tests.sim.cluster.probes import probing
from tests.sim.cluster.producers import Producer
from tests.sim.cluster.routing import Routing
from tests.sim.cluster.world import MAIN_TOPIC, Shape, World
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.support.broker.produce_and_fetch import fetch, only, wanted

STEPS_PER_SEED = 6
LATENESS_NS_MAX = 200_000
FETCH_VERSION = 17
START_S_MAX = 30.0
# How long it may take, once nothing more goes wrong, until all clients are at their end.
RECOVERY_S_MAX = 60.0
SETTLING_S = 5.0
# How long it may take, once all brokers run, until all are up and every partition is led.
LED_S_MAX = 10.0
RUN_S_MAX = 180.0


class GivenUp(Exception):
    """The scenario came to a state in which nothing is promised. Such seeds are counted."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`trace` is the hash of all that went over the network and to the disks."""

    trace: str
    acknowledged: int
    entries: int
    snapshots: int
    sessions_lost: int
    moves: int
    changes: int
    given_up: str | None = None


class Scenario:
    """Under an even seed every message is flushed, and power is lost, too."""

    def __init__(self, seed: int, witness: Witness, shape: Shape) -> None:
        self._seed = seed
        self._is_flushed = seed % 2 == 0
        entropy = SimEntropy(seed).fork("scenario")
        settings = {"log.flush.interval.messages": "1"} if self._is_flushed else {}
        settings["log.flush.offset.checkpoint.interval.ms"] = entropy.pick(("500", "60000"))
        settings["log.segment.delete.delay.ms"] = entropy.pick(("0", "1000", "60000"))
        cluster = Cluster(seed, shape.brokers, witness, **settings)
        witness.clock = cluster.all[0].clock
        self.world = World(cluster, shape, entropy, witness, Oracle())
        self._changer, self._mover = ConfigChanger(self.world), Mover(self.world)
        for machine in cluster.all:
            machine.on_power_loss = partial(self.world.lose_power, machine)

    def run(self, steps: int = STEPS_PER_SEED) -> Outcome:
        given_up = None
        clock = self.world.cluster.all[0].clock
        with probing(self.world.oracle, self.world.claims):
            try:
                run(
                    self._run_in_time(steps),
                    self._seed,
                    clock=clock,
                    lateness_ns_max=LATENESS_NS_MAX,
                )
            except GivenUp as reason:
                given_up = str(reason)
        acknowledged = sum(
            len(self.world.main_partition(index).acknowledged)
            for index in range(self.world.shape.partitions)
        )
        return Outcome(
            trace=self.world.cluster.trace.hash(),
            acknowledged=acknowledged,
            entries=self.world.oracle.entries,
            snapshots=len(self.world.claims.saved),
            sessions_lost=self.world.cluster.sessions_lost,
            moves=self._mover.moves,
            changes=self._changer.acknowledged,
            given_up=given_up,
        )

    async def _run_in_time(self, steps: int) -> None:
        """A broken invariant explains all failures that come after it."""
        try:
            async with asyncio.timeout(RUN_S_MAX):
                await self._run(steps)
        except Exception:
            self._check_metadata()
            self.world.cluster.check_faults()
            raise

    def _check_metadata(self) -> None:
        self.world.oracle.check()
        self.world.claims.check(self.world.cluster.ensemble.servers.log)

    async def _run(self, steps: int) -> None:
        world = self.world
        serving = asyncio.get_running_loop().create_task(world.cluster.ensemble.run())
        await world.cluster.start(START_S_MAX)
        admin = Admin(world)
        await admin.create_main_topic()
        indexes = [world.entropy.below(world.shape.partitions) for _ in range(3)]
        producers = [
            Producer(world, f"producer-{number}", index, is_idempotent=number < 2)
            for number, index in enumerate(indexes)
        ]
        world.producers_left = len(producers)
        consumers = [Consumer(world, f"consumer-{number}") for number in range(2)]
        clients: list[Client] = [*producers, *consumers, admin, self._changer, self._mover]
        nemesis = Nemesis(world, [client.name for client in clients], loses_power=self._is_flushed)
        await self._work_against(nemesis, clients, steps)
        await self._check(admin)
        for machine in world.cluster.all:
            await machine.stop()
        world.cluster.check_faults()
        self._check_metadata()
        losses = world.cluster.possible_losses
        assert self._is_flushed or not losses, f"possible losses without a cause: {losses}"
        serving.cancel()

    async def _work_against(self, nemesis: Nemesis, clients: Sequence[Client], steps: int) -> None:
        """InvariantBroken if the cluster does not serve, or a client is not at its end, in time."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(client.run(), name=client.name) for client in clients]
            await nemesis.run(steps)
            await self._expect_leaders()
            await asyncio.wait(tasks, timeout=RECOVERY_S_MAX)
            late = [
                repr(client) for client, task in zip(clients, tasks, strict=True) if not task.done()
            ]
            if late:
                raise InvariantBroken(11, f"not at their end in {RECOVERY_S_MAX} s: {late}")

    async def _expect_leaders(self) -> None:
        """Also brokers that lived on without a session are up again, and lead."""
        try:
            async with asyncio.timeout(LED_S_MAX):
                while any(self._not_serving().values()):
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise InvariantBroken(
                11, f"does not serve after {LED_S_MAX} s: {self._not_serving()}"
            ) from None

    def _not_serving(self) -> dict[str, list[str]]:
        world = self.world
        return {
            machine.process_name: not_serving(
                world.oracle.images[machine.process_name], world.cluster.machines
            )
            for machine in world.cluster.all
        }

    # In the end

    async def _check(self, admin: Admin) -> None:
        world = self.world
        await asyncio.sleep(SETTLING_S)
        world.oracle.check()
        world.cluster.check_faults()
        check_settled(
            {
                machine.process_name: world.oracle.images[machine.process_name]
                for machine in world.cluster.all
            }
        )
        routing = Routing(world, "auditor", world.entropy.fork("auditor"))
        for index in range(world.shape.partitions):
            _, line = await routing.leader(MAIN_TOPIC, world.main_id, index)
            values = await self._read_all(line.line, index)
            world.main_partition(index).check_log(0, values)
        routing.close()
        await admin.check()
        await self._changer.check()
        world.oracle.check()

    async def _read_all(self, line: Any, index: int) -> list[bytes]:
        values: list[bytes] = []
        while True:
            request = fetch(self.world.main_id, wanted(index, len(values)))
            result: Any = only(await line.ask(request, FETCH_VERSION))
            assert result.error_code == ErrorCode.NONE, result
            batches = list(batches_of(result.records, len(values)))
            for _, content in batches:
                values += [record.value or b"" for record in records(content)]
            if not batches:
                assert result.high_watermark == len(values)
                return values
