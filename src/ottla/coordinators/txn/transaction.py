"""The state of one transactional id, as its record in `__transaction_state` holds it."""

from typing import NamedTuple

from ottla.coordinators.txn.states import TransactionState
from ottla.protocol.producer_epoch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from ottla.protocol.topic_partition import TopicPartition

NO_START_MS = -1
# One object for all ids without a transaction: CPython makes each empty frozenset anew, 216 bytes.
NO_PARTITIONS: frozenset[TopicPartition] = frozenset()
# The transaction version (KIP-890) from which on the end of a transaction bumps the epoch.
EPOCH_BUMPED_SINCE = 2


class Transaction(NamedTuple):
    """A transactional id, its producer and its current or last transaction. Never changed in place.

    `client_version` is the transaction version of the client that made the last change.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = NO_PARTITIONS
    update_ms: int = -1
    start_ms: int = NO_START_MS
    client_version: int = 0
    # The producer id before the last change; it differs only after an id's epochs are used up.
    previous_producer_id: int = NO_PRODUCER_ID
    # In a prepared state: the id that replaces one whose epochs are used up.
    next_producer_id: int = NO_PRODUCER_ID
    # The epoch before the last bump, if its owner may still renew it (KIP-360).
    last_producer_epoch: int = NO_PRODUCER_EPOCH

    @property
    def bumps_epoch(self) -> bool:
        return self.client_version >= EPOCH_BUMPED_SINCE
