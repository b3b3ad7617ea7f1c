"""One seed: a cluster with replicated partitions, its clients, the faults, the checks in the end.

Under an even seed power is lost, and records with it: nothing is flushed before it is acknowledged.
Some even seeds flush every message: then no acknowledged record may be lost by a power loss either.
Under an odd seed processes are killed at any moment, and no record may be lost whatever happens.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from ottla.metadata.image import Image
from ottla.protocol.isolation_level import Isolation
from tests.sim.broker.crowd import Client
from tests.sim.broker.witness import Witness
from tests.sim.cluster.admin import Admin
from tests.sim.cluster.cluster import Cluster
from tests.sim.cluster.oracle import InvariantBroken, check_settled, not_serving
from tests.sim.cluster.world import Shape
from tests.sim.replication.aimed_faults import AimedNemesis
from tests.sim.replication.churn import Churn
from tests.sim.replication.consumers import Consumer
from tests.sim.replication.final_audit import check_replicas, not_in_sync
from tests.sim.replication.groups.clients import Groups
from tests.sim.replication.groups.group_state import GROUP_SETTINGS
from tests.sim.replication.nemesis import ReplicationNemesis
from tests.sim.replication.operator import Operator
from tests.sim.replication.oracle import ReplicationOracle
from tests.sim.replication.probes import isr_answers_lost, markers_told, replication_probed
from tests.sim.replication.producers import Kind, Producer
from tests.sim.replication.transactions.clients import SETTINGS as TRANSACTION_SETTINGS
from tests.sim.replication.transactions.clients import TOPICS as TRANSACTIONAL_TOPICS
from tests.sim.replication.transactions.clients import Transactions, has_transactions
from tests.sim.replication.world import (
    BROKERS,
    LAG_TIME_MAX_MS,
    TOPICS,
    ReplicationWorld,
    Target,
    TopicShape,
)
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run

STEPS_PER_SEED = 10
LATENESS_NS_MAX = 200_000
START_S_MAX = 30.0
# How long it may take, once nothing more goes wrong, until all clients are at their end.
RECOVERY_S_MAX = 60.0
# How long it may take, once all brokers run, until every partition is led and has its whole ISR.
IN_SYNC_S_MAX = 30.0
# Followers learn of the last move of the high watermark.
SETTLING_S = 2.0
RUN_S_MAX = 240.0
# Of the seeds that lose power.
FLUSHED_SHARE = 0.35
SETTINGS = {
    "replica.lag.time.max.ms": str(LAG_TIME_MAX_MS),
    "replica.fetch.wait.max.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "replica.socket.timeout.ms": "3000",
    **GROUP_SETTINGS,
}
KINDS = (Kind.IDEMPOTENT, Kind.IDEMPOTENT, Kind.ALL, Kind.LEADER)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`trace` is the hash of all that went over the network and to the disks."""

    trace: str
    acknowledged: int
    commits: int
    elections: int
    truncations: int
    compared_bytes: int
    sessions_lost: int
    changes: int
    # How often a partition lost so many replicas that nothing was promised.
    excused: int
    # The same of records that were not acknowledged, where every message is flushed.
    weakened: int
    offset_commits: int
    generations: int
    coordinator_moves: int
    topics_deleted: int
    bits_flipped: int
    # What transactional clients met, if there were any.
    transactions: Counter[str]


class Scenario:
    def __init__(self, seed: int, witness: Witness) -> None:
        self._seed = seed
        self._loses_power = seed % 2 == 0
        entropy = SimEntropy(seed).fork("scenario")
        settings = dict(SETTINGS)
        settings["log.flush.offset.checkpoint.interval.ms"] = entropy.pick(("500", "60000"))
        settings["log.segment.delete.delay.ms"] = entropy.pick(("0", "1000", "60000"))
        settings["leader.imbalance.check.interval.seconds"] = entropy.pick(("1", "5", "300"))
        settings["replica.fetch.max.bytes"] = entropy.pick(("1", "2000", "1048576"))
        high_watermark_ms = entropy.fork("high watermarks").pick(("500", "5000", "60000", "60000"))
        settings["replica.high.watermark.checkpoint.interval.ms"] = high_watermark_ms
        if has_transactions(entropy):
            settings |= TRANSACTION_SETTINGS
        is_flushed = self._loses_power and entropy.fork("flush").chance(FLUSHED_SHARE)
        if is_flushed:
            settings["log.flush.interval.messages"] = "1"
        cluster = Cluster(seed, BROKERS, witness, **settings)
        witness.clock = cluster.all[0].clock
        oracle = ReplicationOracle(is_flushed=is_flushed)
        shape = Shape(brokers=BROKERS, replication_factor=BROKERS)
        self.world = ReplicationWorld(cluster, shape, entropy, witness, oracle)
        self._transactions = Transactions(self.world) if has_transactions(entropy) else None
        self._producers: list[Producer] = []
        self._operator: Operator | None = None
        self._groups, self._churn = Groups(self.world), Churn(self.world)
        self._compared_bytes = 0
        for machine in cluster.all:
            machine.on_power_loss = partial(self.world.lose_power, machine)

    def run(self, steps: int = STEPS_PER_SEED) -> Outcome:
        world = self.world
        answers = world.entropy.fork("answers")
        with (
            replication_probed(world.oracle, world.claims),
            isr_answers_lost(
                lambda asked: (
                    world.loses_isr_answer(asked) or answers.chance(world.lost_isr_answers)
                ),
                world.loses_isr_request,
            ),
            markers_told(world.sends_marker),
        ):
            run(
                self._run_in_time(steps),
                self._seed,
                clock=world.cluster.all[0].clock,
                lateness_ns_max=LATENESS_NS_MAX,
            )
        return Outcome(
            trace=world.cluster.trace.hash(),
            acknowledged=sum(producer.acknowledged for producer in self._producers),
            commits=world.oracle.commits,
            elections=world.oracle.elections,
            truncations=world.oracle.truncations,
            compared_bytes=self._compared_bytes,
            sessions_lost=world.cluster.sessions_lost,
            changes=0 if self._operator is None else self._operator.changes,
            excused=sum(world.oracle.losses.excused.values()),
            transactions=self._transactions.counts if self._transactions else Counter(),
            weakened=sum(world.oracle.losses.weakened.values()),
            offset_commits=self._groups.totals.offset_commits,
            generations=self._groups.totals.generations,
            coordinator_moves=self._groups.totals.coordinator_moves,
            topics_deleted=self._churn.topics,
            bits_flipped=world.bits_flipped,
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
        for topic in TOPICS:
            world.targets += await self._create(admin, topic)
        clients = self._clients()
        names = [client.name for client in clients]
        if self._transactions is None:
            nemesis: ReplicationNemesis = AimedNemesis(world, names, loses_power=self._loses_power)
        else:
            clients += await self._transactional_clients(self._transactions, admin)
            names = [client.name for client in clients]
            nemesis = self._transactions.nemesis(names, loses_power=self._loses_power)
        await self._work_against(nemesis, clients, steps)
        await self._check()
        for machine in world.cluster.all:
            await machine.stop()
        world.cluster.check_faults()
        self._check_metadata()
        losses = world.cluster.possible_losses
        assert self._loses_power or not losses, f"possible losses without a cause: {losses}"
        serving.cancel()

    async def _transactional_clients(
        self, transactions: Transactions, admin: Admin
    ) -> list[Client]:
        for topic in TRANSACTIONAL_TOPICS:
            transactions.know(topic, await self._create(admin, topic))
        await transactions.set_up()
        return transactions.clients()

    async def _create(self, admin: Admin, topic: TopicShape) -> list[Target]:
        configs: dict[str, str | None] = {
            "segment.ms": "2000",
            "index.interval.bytes": "200",
            "min.insync.replicas": str(topic.min_isr),
            "unclean.leader.election.enable": "false",
        }
        topic_id = await admin._persist(
            lambda: admin._create(topic.name, topic.partitions, topic.replication_factor, configs)
        )
        return [Target(topic.name, topic_id, index) for index in range(topic.partitions)]

    def _clients(self) -> list[Client]:
        """Each partition has one producer; the first one has one more."""
        world = self.world
        targets = [*world.targets, world.targets[0]]
        kinds = [*KINDS, world.entropy.pick(KINDS)]
        self._producers = [
            Producer(world, f"producer-{number}", target, kind)
            for number, (target, kind) in enumerate(zip(targets, kinds, strict=True))
        ]
        world.producers_left = len(self._producers)
        consumers = [
            Consumer(world, f"consumer-{number}", isolation)
            for number, isolation in enumerate(Isolation)
        ]
        self._operator = Operator(world)
        others = [*self._groups.clients(), *self._churn.clients()]
        return [*self._producers, *consumers, self._operator, *others]

    async def _work_against(
        self, nemesis: ReplicationNemesis, clients: Sequence[Client], steps: int
    ) -> None:
        """InvariantBroken if the cluster does not heal, or a client is not at its end, in time."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(client.run(), name=client.name) for client in clients]
            await nemesis.run(steps)
            await self._expect("does not serve", self._not_serving)
            await asyncio.wait(tasks, timeout=RECOVERY_S_MAX)
            late = [
                repr(client) for client, task in zip(clients, tasks, strict=True) if not task.done()
            ]
            if late:
                raise InvariantBroken(11, f"not at their end in {RECOVERY_S_MAX} s: {late}")
        await self._expect("is not in sync", self._not_in_sync)

    async def _expect(self, what: str, left: Callable[[], list[str]]) -> None:
        """Waits until nothing is left to be done."""
        try:
            async with asyncio.timeout(IN_SYNC_S_MAX):
                while left():
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise InvariantBroken(11, f"{what} after {IN_SYNC_S_MAX} s: {left()}") from None

    def _not_serving(self) -> list[str]:
        """Also brokers that lived on without a session are up again, and lead."""
        world = self.world
        return [
            f"{process}: {each}"
            for process, image in self._images().items()
            for each in not_serving(image, world.cluster.machines)
        ]

    def _not_in_sync(self) -> list[str]:
        return [each for image in self._images().values() for each in not_in_sync(image)]

    def _images(self) -> dict[str, Image]:
        world = self.world
        processes = [machine.process_name for machine in world.cluster.all]
        return {process: world.oracle.images[process] for process in processes}

    # In the end

    async def _check(self) -> None:
        world = self.world
        if self._transactions is not None:
            await self._transactions.check()
        await asyncio.sleep(SETTLING_S)
        world.oracle.check()
        world.cluster.check_faults()
        images = self._images()
        check_settled(images)
        await self._groups.check()
        await self._churn.check()
        self._compared_bytes = check_replicas(world.oracle, next(iter(images.values())))
        world.oracle.check()
