"""The topics of the simulation, and the state that all of its participants share."""

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.protocol.primitives import Uuid
from tests.sim.broker.history import PartitionHistory
from tests.sim.cluster.cluster import BrokerMachine
from tests.sim.cluster.oracle import PartitionKey
from tests.sim.cluster.world import World
from tests.sim.replication.oracle import ReplicationOracle
from tests.sim.seams.entropy import SimEntropy

# A follower that lacks a record for this long leaves the ISR.
LAG_TIME_MAX_MS = 2_000


class TopicShape(NamedTuple):
    """Names begin with "main": the nemesis finds their logs by that."""

    name: str
    partitions: int
    replication_factor: int
    min_isr: int


TOPICS = (
    TopicShape("main-of-two", 2, 3, 2),
    TopicShape("main-of-one", 1, 3, 1),
    TopicShape("main-pair", 1, 2, 2),
)


def factor_of(topic: str) -> int:
    (shape,) = (shape for shape in TOPICS if shape.name == topic)
    return shape.replication_factor


class Target(NamedTuple):
    """One partition that clients write to and read."""

    topic: str
    topic_id: Uuid
    index: int

    @property
    def key(self) -> PartitionKey:
        return self.topic_id, self.index

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


@dataclass(slots=True)
class ReplicationWorld(World):
    oracle: ReplicationOracle
    targets: list[Target] = field(default_factory=list)
    # By partition: the offsets between batches that consumers have read.
    batch_ends: dict[PartitionKey, list[int]] = field(default_factory=dict)
    # The share of answers to AlterPartition that get lost.
    lost_isr_answers: float = 0.0

    @property
    def used_partitions(self) -> list[PartitionKey]:
        """Those that clients write to and read, and those of the coordinators."""
        image = max(self.oracle.images.values(), key=lambda image: image.offset)
        internal = [
            (topic.topic_id, record.index)
            for name in sorted(INTERNAL_TOPICS)
            if (topic := image.topic(name)) is not None
            for record in image.partitions(topic.topic_id)
        ]
        return [*(target.key for target in self.targets), *internal]

    def partition(self, target: Target) -> PartitionHistory:
        return self.history.partition(*target.key)

    def excuses(self, target: Target) -> int:
        """How often all records of the partition were excused."""
        return self.oracle.losses.excuses(target.key)

    def read_to(self, target: Target, offset: int) -> None:
        """A consumer has read a batch that ends here."""
        self.batch_ends.setdefault(target.key, []).append(offset)

    def next_deletion(self, target: Target, entropy: SimEntropy) -> int:
        """An offset up to which records may be deleted; the oracle knows of it from now on."""
        offset = entropy.pick(self.batch_ends.get(target.key) or [0])
        deleted = self.oracle.deleted_to
        deleted[target.key] = max(deleted.get(target.key, 0), offset)
        return offset

    def lose_power(self, machine: BrokerMachine) -> None:
        zxid = self.cluster.ensemble.servers._proposed.zxid
        for key in self.oracle.power_lost(machine.broker_id, zxid):
            self.witness.note(f"excused: {key[0]}-{key[1]}")
            self.history.partition(*key).forget()
            self.batch_ends.pop(key, None)
