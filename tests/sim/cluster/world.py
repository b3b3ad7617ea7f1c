"""The state that all participants of a cluster's simulation share."""

from dataclasses import dataclass, field

from ottla.protocol.primitives import ZERO_UUID, Uuid
from tests.sim.broker.history import History, PartitionHistory
from tests.sim.broker.witness import Witness
from tests.sim.cluster.cluster import BrokerMachine, Cluster
from tests.sim.cluster.metadata_audit import StoreClaims
from tests.sim.cluster.oracle import Oracle
from tests.sim.seams.entropy import SimEntropy

MAIN_TOPIC = "main"


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a scenario. With `forwards` requests for the controller go to any broker."""

    brokers: int = 3
    # Two per broker: one in each of its log directories.
    partitions: int = 6
    replication_factor: int = 1
    forwards: bool = True


@dataclass(slots=True)
class World:
    """`is_calm` once nothing more goes wrong: then all that was begun must come to its end."""

    cluster: Cluster
    shape: Shape
    entropy: SimEntropy
    witness: Witness
    oracle: Oracle
    claims: StoreClaims = field(default_factory=StoreClaims)
    history: History = field(default_factory=History)
    main_id: Uuid = ZERO_UUID
    is_calm: bool = False
    producers_left: int = 0
    # By partition of any topic: the brokers with its replicas.
    replicas: dict[tuple[Uuid, int], tuple[int, ...]] = field(default_factory=dict)

    def main_partition(self, index: int) -> PartitionHistory:
        return self.history.partition(self.main_id, index)

    def place(self, topic_id: Uuid, index: int, replicas: tuple[int, ...]) -> None:
        self.replicas[topic_id, index] = replicas

    def lose_power(self, machine: BrokerMachine) -> None:
        """Records that were read, and never acknowledged, may be gone from this machine."""
        for (topic_id, index), replicas in self.replicas.items():
            if machine.broker_id in replicas:
                self.history.partition(topic_id, index).lose_power()
