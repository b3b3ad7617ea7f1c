"""The topics of the simulation, and the state that all of its participants share."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.metadata.controller.isr_changes import AskedIsr
from ottla.metadata.topic_names import INTERNAL_TOPICS
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.transaction_marker import TransactionMarker
from tests.sim.broker.history import PartitionHistory
from tests.sim.cluster.cluster import BrokerLine, BrokerMachine
from tests.sim.cluster.oracle import PartitionKey
from tests.sim.cluster.world import World
from tests.sim.replication.oracle import ReplicationOracle
from tests.sim.replication.stored_batches import unsaved_batches
from tests.sim.seams.entropy import SimEntropy

BROKERS = 3
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


class Source(NamedTuple):
    """A broker that is about to answer a fetch: the leader epoch in which it does, or a later one.

    And the newest leader epoch, if the broker leads in that, and knows it.
    """

    leader_epoch: int
    epoch_led: int | None


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
    # Of topics that come and go.
    churned: list[Target] = field(default_factory=list)
    # By partition: the offsets between batches that consumers have read.
    batch_ends: dict[PartitionKey, list[int]] = field(default_factory=dict)
    # By partition: up to where all is promised still that was acknowledged before the last loss.
    kept_ends: dict[PartitionKey, int] = field(default_factory=dict)
    # Called with each partition whose records are excused.
    on_excused: list[Callable[[PartitionKey], None]] = field(default_factory=list)
    # The share of answers to AlterPartition that get lost.
    lost_isr_answers: float = 0.0
    # Called with each AlterPartition before it is sent.
    isr_requests: list[Callable[[Sequence[AskedIsr]], None]] = field(default_factory=list)
    # Called with each AlterPartition that was answered. True if the answer gets lost.
    isr_answers: list[Callable[[Sequence[AskedIsr]], bool]] = field(default_factory=list)
    # Called with each marker that is sent, the coordinator's process, and all partitions.
    markers: list[Callable[[str, TransactionMarker, Sequence[TopicPartition]], None]] = field(
        default_factory=list
    )
    bits_flipped: int = 0

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
        """How often records of the partition were excused."""
        return self.oracle.losses.interruptions(target.key)

    def epoch_led_by(self, line: BrokerLine, key: PartitionKey) -> int | None:
        """The newest leader epoch, if the broker leads the partition in it and knows that.

        A broker that does not know that it was deposed serves the records of its own epoch.
        """
        machine = line.machine
        record = self.oracle.losses.newest.get(key)
        replica = self.oracle.replica(key, machine.broker_id)
        if record is None or replica is None or line.life != machine.lives:
            return None
        leads = record.leader is not None and record.leader.broker_id == machine.broker_id
        partition = replica.partition
        knows_it = partition.is_leader and partition.leader_epoch == record.leader_epoch
        return record.leader_epoch if leads and knows_it else None

    def source(self, line: BrokerLine, key: PartitionKey) -> Source:
        """Who answers what is asked next on this connection."""
        replica = self.oracle.replica(key, line.machine.broker_id)
        is_known = replica is not None and line.life == line.machine.lives
        leader_epoch = replica.partition.leader_epoch if replica and is_known else -1
        return Source(leader_epoch, self.epoch_led_by(line, key))

    def promises(self, source: Source, line: BrokerLine, key: PartitionKey) -> bool:
        """Whether the answer of a source is a promise, now that it is here.

        After a loss a leader that was deposed before may still serve what is lost, while its
        successors have other records there. The one that leads has what is promised now.
        """
        if not self.oracle.losses.may_be_lost(key, source.leader_epoch):
            return True
        return source.epoch_led is not None and source.epoch_led == self.epoch_led_by(line, key)

    def read_to(self, target: Target, offset: int) -> None:
        """A consumer has read a batch that ends here."""
        self.batch_ends.setdefault(target.key, []).append(offset)

    def loses_isr_request(self, asked: Sequence[AskedIsr]) -> bool:
        """An AlterPartition is about to be sent, and is not lost."""
        for tell in list(self.isr_requests):
            tell(asked)
        return False

    def loses_isr_answer(self, asked: Sequence[AskedIsr]) -> bool:
        """Whether an aimed fault loses the answer to an AlterPartition."""
        return any(is_lost(asked) for is_lost in list(self.isr_answers))

    def sends_marker(
        self, process: str, marker: TransactionMarker, partitions: Sequence[TopicPartition]
    ) -> None:
        """A coordinator is about to have other brokers write a marker to these partitions."""
        for tell in list(self.markers):
            tell(process, marker, partitions)

    def next_deletion(self, target: Target, entropy: SimEntropy) -> int:
        """An offset up to which records may be deleted; the oracle knows of it from now on."""
        offset = entropy.pick(self.batch_ends.get(target.key) or [0])
        deleted = self.oracle.deleted_to
        deleted[target.key] = max(deleted.get(target.key, 0), offset)
        return offset

    def damageable(self, machine: BrokerMachine) -> list[tuple[PartitionKey, str, range]]:
        """Batches of a broker that may be damaged: the partition, the file, and the positions."""
        return [
            (key, path, positions)
            for key in self.used_partitions
            if self.oracle.losses.may_be_damaged(key, machine.broker_id)
            and (replica := self.oracle.replica(key, machine.broker_id)) is not None
            and replica.log is not None
            for path, positions in unsaved_batches(replica.log)
        ]

    def damage(self, key: PartitionKey, machine: BrokerMachine) -> None:
        self.bits_flipped += 1
        self.witness.note(f"a bit is flipped on {machine.host}: {key[0]}-{key[1]}")
        self.oracle.losses.damaged(key, machine.broker_id, self._zxid)

    @property
    def _zxid(self) -> int:
        return self.cluster.ensemble.servers._proposed.zxid

    def lose_power(self, machine: BrokerMachine) -> None:
        for key in self.oracle.power_lost(machine.broker_id, self._zxid):
            self.witness.note(f"excused: {key[0]}-{key[1]}")
            history = self.history.partition(*key)
            if self.oracle.losses.is_flushed:
                history.lose_power()
            else:
                history.forget()
            self.kept_ends[key] = history.acknowledged_end
            ends = self.batch_ends.get(key, [])
            self.batch_ends[key] = [each for each in ends if each <= history.acknowledged_end]
            for tell in self.on_excused:
                tell(key)
