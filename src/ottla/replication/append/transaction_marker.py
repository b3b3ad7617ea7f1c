"""The transaction marker that a coordinator has partition leaders write."""

from typing import NamedTuple

from ottla.protocol.batch import MarkerKind


class TransactionMarker(NamedTuple):
    """Ends the transaction of a producer. `coordinator_epoch` fences earlier coordinators.

    With `transaction_version` 2 the epoch is the transaction's epoch plus one.
    """

    producer_id: int
    producer_epoch: int
    kind: MarkerKind
    coordinator_epoch: int
    transaction_version: int = 0
