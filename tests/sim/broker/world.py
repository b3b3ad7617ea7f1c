"""What all who take part in a simulation share: the machine, the topics, what was promised."""

from dataclasses import dataclass, field

from ottla.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID, Uuid
from tests.sim.broker.history import History, PartitionHistory
from tests.sim.broker.machine import Machine
from tests.sim.broker.witness import Witness
from tests.sim.seams.entropy import SimEntropy

MAIN_TOPIC = "main"
MAIN_PARTITIONS = 2


@dataclass(slots=True)
class World:
    """`is_calm` once nothing more goes wrong: then all that was begun must come to its end."""

    machine: Machine
    entropy: SimEntropy
    witness: Witness
    history: History = field(default_factory=History)
    main_id: Uuid = ZERO_UUID
    is_calm: bool = False
    producers_left: int = 0
    # The last life of the broker in which the disk failed: then a partition may be offline.
    failed_life: int = 0

    def main_partition(self, index: int) -> PartitionHistory:
        return self.history.partition(self.main_id, index)

    def accept_error(self, index: int, code: int, life: int) -> None:
        """A partition could not be read in a life of the broker: only if its disk failed."""
        assert code == ErrorCode.KAFKA_STORAGE_ERROR, f"partition {index}: error {code}"
        assert life <= self.failed_life, f"partition {index} is offline, and its disk is sound"
