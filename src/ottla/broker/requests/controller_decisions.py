"""The controller's decisions on requests of brokers, as the handlers call them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ottla.metadata.controller.isr_changes import AskedIsr, altered
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.metadata.values import Incarnation, PartitionId

# The partition with the ISR that its leader asks for; the same object if it has it already.
Altered = Callable[[Image, Incarnation, AskedIsr], Partition]
# The new records of the partitions whose logs are offline on a broker.
LogsOffline = Callable[[Image, Incarnation, Sequence[PartitionId]], Sequence[Partition]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerDecisions:
    """The decisions of a node. Without one the request is refused."""

    altered: Altered = altered
    logs_offline: LogsOffline | None = None
