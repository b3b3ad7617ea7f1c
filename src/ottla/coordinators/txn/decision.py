"""The decision of a transaction coordinator, and its effect: markers to be written."""

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ottla.coordinators.runtime import decision
from ottla.protocol.batch import MarkerKind
from ottla.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from ottla.coordinators.txn.records import Record


class WriteMarkers(NamedTuple):
    """The leaders of these partitions have to write a marker; then the transaction is complete."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    kind: MarkerKind
    transaction_version: int
    partitions: frozenset[TopicPartition]


if TYPE_CHECKING:
    Decision: TypeAlias = decision.Decision[Record, WriteMarkers]
else:
    # Calling a parameterised class takes longer than calling the class.
    Decision = decision.Decision
