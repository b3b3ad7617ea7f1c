"""The changes of a transactional id: each takes its state and returns the next. No I/O.

Whether a change is allowed is decided before, in `coordinators.txn.machine`.
"""

from ottla.coordinators.txn.states import COMPLETE, PREPARE, TransactionState
from ottla.coordinators.txn.transaction import (
    EPOCH_BUMPED_SINCE,
    NO_PARTITIONS,
    NO_START_MS,
    Transaction,
)
from ottla.protocol.batch import MarkerKind
from ottla.protocol.producer_epoch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    ProducerIdAndEpoch,
)
from ottla.protocol.topic_partition import TopicPartition

# The version of clients that do not name theirs: the end of a transaction keeps the epoch.
WITHOUT_BUMP = 0


def created(transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
    """A new transactional id, at its first epoch."""
    return Transaction(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=0,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        update_ms=now_ms,
        previous_producer_id=producer_id,
    )


def initialized(
    before: Transaction,
    producer: ProducerIdAndEpoch,
    last_producer_epoch: int,
    timeout_ms: int,
    now_ms: int,
) -> Transaction:
    """A producer was given this id and epoch. It has no transaction yet."""
    is_repeated = producer == (before.producer_id, before.producer_epoch)
    return before._replace(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        # The answer may be lost more than once.
        previous_producer_id=before.previous_producer_id if is_repeated else before.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        last_producer_epoch=last_producer_epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        partitions=NO_PARTITIONS,
        update_ms=now_ms,
        start_ms=NO_START_MS,
    )


def with_partitions(
    before: Transaction, added: frozenset[TopicPartition], client_version: int, now_ms: int
) -> Transaction:
    """Partitions were added to the transaction, which begins with the first."""
    is_begun = before.state is TransactionState.ONGOING
    return before._replace(
        state=TransactionState.ONGOING,
        partitions=before.partitions | added if is_begun else added,
        start_ms=before.start_ms if is_begun else now_ms,
        update_ms=now_ms,
        client_version=client_version,
        previous_producer_id=before.producer_id,
    )


def prepared(
    before: Transaction,
    kind: MarkerKind,
    client_version: int,
    now_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """The outcome is decided, at the client's request.

    With transaction.version 2 the producer continues at the next epoch, or as `next_producer_id`.
    """
    bumps = client_version >= EPOCH_BUMPED_SINCE
    epoch, last_epoch = before.producer_epoch, before.last_producer_epoch
    if bumps:
        epoch, last_epoch = min(epoch + 1, PRODUCER_EPOCH_MAX), epoch
    is_begun = before.state is TransactionState.ONGOING
    return before._replace(
        state=PREPARE[kind],
        producer_epoch=epoch,
        last_producer_epoch=last_epoch,
        partitions=before.partitions if is_begun else NO_PARTITIONS,
        start_ms=before.start_ms if is_begun else now_ms,
        update_ms=now_ms,
        client_version=client_version,
        previous_producer_id=before.producer_id,
        next_producer_id=next_producer_id,
    )


def fenced(
    before: Transaction,
    transaction_version: int,
    now_ms: int,
    next_producer_id: int = NO_PRODUCER_ID,
) -> Transaction:
    """The coordinator aborts the transaction. The epoch is bumped, so that its producer is fenced.

    With transaction.version 2 that producer may renew its epoch (KIP-360): it is an ordinary bump.
    """
    if transaction_version >= EPOCH_BUMPED_SINCE:
        return prepared(before, MarkerKind.ABORT, transaction_version, now_ms, next_producer_id)
    bumped = before._replace(
        producer_epoch=min(before.producer_epoch + 1, PRODUCER_EPOCH_MAX),
        last_producer_epoch=NO_PRODUCER_EPOCH,
    )
    return prepared(bumped, MarkerKind.ABORT, WITHOUT_BUMP, now_ms)


def completed(before: Transaction, now_ms: int) -> Transaction:
    """All markers are written."""
    producer_id, epoch = before.producer_id, before.producer_epoch
    if before.next_producer_id != NO_PRODUCER_ID:
        producer_id, epoch = before.next_producer_id, 0
    return before._replace(
        producer_id=producer_id,
        producer_epoch=epoch,
        state=COMPLETE[before.state],
        partitions=NO_PARTITIONS,
        update_ms=now_ms,
        previous_producer_id=before.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )
