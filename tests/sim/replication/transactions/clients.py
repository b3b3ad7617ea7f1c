"""The transactional clients of a cluster's seed, from their topics to the audit in the end."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from ottla.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.topic_partition import by_topic
from tests.sim.broker.crowd import Client
from tests.sim.broker.transactional_committers import OffsetReader, PlainCommitter
from tests.sim.broker.transactional_history import TransactionalHistory
from tests.sim.broker.transactional_producers import TransactionalProducer
from tests.sim.broker.transactional_route import Way
from tests.sim.replication.aimed_faults import has_aimed_faults
from tests.sim.replication.nemesis import ReplicationNemesis
from tests.sim.replication.transactions.audit import ClusterAudit
from tests.sim.replication.transactions.nemesis import TransactionalNemesis
from tests.sim.replication.transactions.readers import TransactionalReader
from tests.sim.replication.transactions.world import (
    FACTOR,
    MIN_ISR,
    OFFSETS_PARTITIONS,
    PLACES,
    STATE_PARTITIONS,
    ClusterTransactions,
)
from tests.sim.replication.world import ReplicationWorld, Target, TopicShape
from tests.sim.seams.entropy import SimEntropy

FIND_AGAIN_S = 0.1
# The share of seeds with transactional clients.
SHARE = 0.5
SETTINGS = {
    "offsets.topic.num.partitions": str(OFFSETS_PARTITIONS),
    "transaction.state.log.num.partitions": str(STATE_PARTITIONS),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    # Of the offsets topic: all others say it themselves.
    "min.insync.replicas": str(MIN_ISR),
}
TOPICS = tuple(
    TopicShape(topic, len(members), FACTOR, MIN_ISR) for topic, members in by_topic(PLACES).items()
)
# The transactional ids, and the transaction version of each producer that uses them: those of one
# id fence one another.
Producers = Mapping[str, tuple[int, ...]]
SHARED: Producers = {"one": (2,), "shared": (1, 2)}
APART: Producers = {"one": (1,), "two": (2,), "three": (1,)}


def has_transactions(entropy: SimEntropy) -> bool:
    """Whether a seed has transactional clients."""
    return entropy.fork("transactions").chance(SHARE)


class Transactions:
    """Of one seed. `set_up`, then `clients` and `nemesis`, then `check`."""

    def __init__(self, base: ReplicationWorld) -> None:
        history = TransactionalHistory(
            base.cluster.all[0].clock, is_outdated=lambda: self.world.has_deposed_coordinator
        )
        self.world = ClusterTransactions(history=history, base=base)
        # Markers are aimed at the next transaction of a producer that nobody fences.
        shared = () if has_aimed_faults(base.entropy) else (SHARED, SHARED)
        self._ids = self.world.fork("ids").pick((*shared, APART))
        base.on_excused.append(self.world.excused)
        base.oracle.on_election.append(self.world.elected)

    @property
    def counts(self) -> Counter[str]:
        return self.world.history.totals + Counter(seeds=1)

    def know(self, shape: TopicShape, targets: list[Target]) -> None:
        """A topic was created."""
        self.world.know(shape.name, targets[0].topic_id)
        members = by_topic(PLACES)[shape.name]
        self.world.targets |= dict(zip(members, targets, strict=True))

    async def set_up(self) -> None:
        """The coordinators' topics are there on return."""
        route = self.world.cluster_route("finder")
        for transactional_id in self._ids:
            await _persist(partial(route.way_to_id, transactional_id))
        await _persist(route.way_to_group)
        route.close()
        for image in self.world.base.oracle.images.values():
            state, offsets = image.topic(TRANSACTION_STATE), image.topic(CONSUMER_OFFSETS)
            if state is not None and offsets is not None:
                for topic in (state, offsets):
                    self.world.know(topic.name, topic.topic_id)
                self.world.learn_coordinators(self.world.topic_ids)
                return
        raise AssertionError("no broker has the coordinators' topics")

    def clients(self) -> list[Client]:
        producers = [
            TransactionalProducer(
                self.world, f"{transactional_id}-{number}", transactional_id, version=version
            )
            for transactional_id, versions in self._ids.items()
            for number, version in enumerate(versions)
        ]
        self.world.producers_left = len(producers)
        readers = [
            TransactionalReader(self.world, f"reader-{isolation.name.lower()}", isolation)
            for isolation in Isolation
        ]
        clients: list[Client] = [*producers, *readers]
        clients += [PlainCommitter(self.world), OffsetReader(self.world)]
        return [Forgiven(self.world, each) for each in clients]

    def nemesis(self, clients: list[str], *, loses_power: bool) -> ReplicationNemesis:
        return TransactionalNemesis(self.world, clients, loses_power=loses_power)

    async def check(self) -> None:
        """In peace. Nothing is promised once the clients have given up."""
        if not self.world.given_up.is_set():
            await ClusterAudit(self.world, tuple(self._ids)).check()


class Forgiven:
    """A client that gives up when nothing is promised to it any more."""

    def __init__(self, world: ClusterTransactions, client: Client) -> None:
        self.name = client.name
        self._world = world
        self._client = client

    def __repr__(self) -> str:
        return repr(self._client)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        working = loop.create_task(self._client.run(), name=self.name)
        giving_up = loop.create_task(self._world.given_up.wait(), name=f"{self.name} gives up")
        try:
            await asyncio.wait((working, giving_up), return_when=asyncio.FIRST_COMPLETED)
        finally:
            giving_up.cancel()
            working.cancel()
        if not self._world.given_up.is_set():
            working.result()


async def _persist(find: Callable[[], Awaitable[Way]]) -> None:
    """Until there is a coordinator."""
    while True:
        try:
            await find()
        except OSError:
            await asyncio.sleep(FIND_AGAIN_S)
        else:
            return
