"""What the transactional clients of a cluster share, and when nothing is promised to them."""

import asyncio
from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.history import PartitionHistory
from tests.sim.broker.transactional_route import Route
from tests.sim.broker.transactional_world import GROUP, RETRIED, TransactionalWorld
from tests.sim.cluster.oracle import PartitionKey
from tests.sim.cluster.producers import NO_ID_YET, PASSING
from tests.sim.cluster.routing import Routing
from tests.sim.replication.transactions.route import ONLY_LIFE, ClusterRoute
from tests.sim.replication.world import ReplicationWorld, Target
from tests.sim.seams.entropy import SimEntropy

OFFSETS_PARTITIONS, STATE_PARTITIONS = 1, 2
PLACES = (
    TopicPartition("main-ledger", 0),
    TopicPartition("main-ledger", 1),
    TopicPartition("main-journal", 0),
)
FACTOR, MIN_ISR = 3, 2


@dataclass(slots=True, kw_only=True)
class ClusterTransactions(TransactionalWorld):
    """Nothing is promised any more once too many replicas of one of the partitions have lost power:
    of the data, of `__transaction_state` or of `__consumer_offsets`. The clients then give up."""

    base: ReplicationWorld
    places: tuple[TopicPartition, ...] = PLACES
    retried: frozenset[ErrorCode] = RETRIED | {*PASSING, *NO_ID_YET}
    targets: dict[TopicPartition, Target] = field(default_factory=dict)
    # The coordinators' partitions.
    state_keys: list[PartitionKey] = field(default_factory=list)
    offsets_keys: list[PartitionKey] = field(default_factory=list)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_calm(self) -> bool:
        return self.base.is_calm

    @property
    def lives(self) -> int:
        return ONLY_LIFE

    @property
    def losses(self) -> int:
        return 0

    @property
    def may_read_stale(self) -> bool:
        return not self.base.is_calm

    @property
    def keys(self) -> list[PartitionKey]:
        """Of all partitions that transactions are about."""
        data = [target.key for target in self.targets.values()]
        return [*data, *self.state_keys, *self.offsets_keys]

    @property
    def has_deposed_coordinator(self) -> bool:
        """Whether a broker takes itself for a coordinator, and has not heard of the next one."""
        oracle = self.base.oracle
        for key in self.state_keys:
            for machine in self.base.cluster.all:
                replica = oracle.replica(key, machine.broker_id)
                if replica is None or not machine.is_alive or not replica.partition.is_leader:
                    continue
                if replica.partition.leader_epoch < oracle.losses.newest[key].leader_epoch:
                    return True
        return False

    def fork(self, name: str) -> SimEntropy:
        return self.base.entropy.fork(f"transactions/{name}")

    def wall_ms(self) -> int:
        return self.base.cluster.wall_ms()

    def route(self, host: str, transactional_id: str = "") -> Route:
        return self.cluster_route(host, transactional_id)

    def cluster_route(self, host: str, transactional_id: str = "") -> ClusterRoute:
        routing = Routing(self.base, host, self.fork(f"routing of {host}"))
        return ClusterRoute(routing, GROUP, transactional_id, self.topic_ids)

    def partition_history(self, place: TopicPartition) -> PartitionHistory:
        return self.base.partition(self.targets[place])

    def acknowledge(self, place: TopicPartition, base_offset: int, values: list[bytes]) -> None:
        # Not super(): the class is made anew for its slots.
        TransactionalWorld.acknowledge(self, place, base_offset, values)
        self.base.oracle.acknowledged(self.targets[place].key, base_offset + len(values))

    # What happens

    def learn_coordinators(self, topic_ids: dict[str, Uuid]) -> None:
        """The coordinators' topics were created."""
        self.state_keys = [
            (topic_ids[TRANSACTION_STATE], index) for index in range(STATE_PARTITIONS)
        ]
        self.offsets_keys = [
            (topic_ids[CONSUMER_OFFSETS], index) for index in range(OFFSETS_PARTITIONS)
        ]

    def elected(self, key: PartitionKey, _broker_id: int) -> None:
        """A coordinator that moves has another wall clock: timeouts may come early."""
        if key in self.state_keys:
            self.history.clock_jumps += 1
            self.history.counts["coordinator moves"] += 1

    def excused(self, key: PartitionKey) -> None:
        if key in self.keys and not self.given_up.is_set():
            self.history.counts["given up"] += 1
            self.given_up.set()
