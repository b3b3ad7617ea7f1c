"""The controller's decisions on requests of brokers, as the handlers call them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.metadata.values import Incarnation, PartitionId
from ottla.protocol.primitives import Uuid


class AskedIsr(NamedTuple):
    """The ISR that a leader asks for, with the epochs of the record that it knows."""

    topic_id: Uuid
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[Incarnation, ...]


# The partition with the ISR that its leader asks for; the same object if it has it already.
Altered = Callable[[Image, Incarnation, AskedIsr], Partition]
# The new records of the partitions whose logs are offline on a broker.
LogsOffline = Callable[[Image, Incarnation, Sequence[PartitionId]], Sequence[Partition]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDecisions:
    """None: the request is refused."""

    altered: Altered | None = None
    logs_offline: LogsOffline | None = None
