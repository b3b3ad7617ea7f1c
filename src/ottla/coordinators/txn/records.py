"""The records of `__transaction_state`, in Kafka's own format.

One tagged field is ours, with a number that Kafka does not use; Kafka's readers skip it. With it a
producer can repeat the renewal of its epoch (KIP-360) after a restart of the coordinator.

A broker may load a hundred thousand transactional ids: equal values are one object where many ids
have the same one, which halves their memory.
"""

from dataclasses import dataclass
from functools import lru_cache

from ottla.coordinators.stored_record import (
    DamagedRecord,
    RecordType,
    StoredRecord,
    from_bytes,
    to_bytes,
)
from ottla.coordinators.txn.states import TransactionState
from ottla.coordinators.txn.transaction import NO_PARTITIONS, Transaction
from ottla.protocol.codec import header, struct, tagged
from ottla.protocol.primitives import i8, i16, i32, i64
from ottla.protocol.topic_partition import TopicPartition, by_topic

TRANSACTION = 0
VERSION = 1
LAST_PRODUCER_EPOCH_TAG = 10_000


@dataclass(frozen=True, slots=True)
class TransactionTombstone:
    """The transactional id has expired."""

    transactional_id: str


Record = Transaction | TransactionTombstone


@struct
class TransactionLogKey:
    transactional_id: str


@struct
class PartitionsSchema:
    topic: str
    partition_ids: tuple[i32, ...]


@header(versions=(0, 1), flexible=1)
class TransactionLogValue:
    producer_id: i64
    previous_producer_id: i64 = tagged(0, since=1, default=-1, ignorable=True)
    next_producer_id: i64 = tagged(1, since=1, default=-1, ignorable=True)
    producer_epoch: i16
    transaction_timeout_ms: i32
    transaction_status: i8
    transaction_partitions: tuple[PartitionsSchema, ...] | None
    transaction_last_update_timestamp_ms: i64
    transaction_start_timestamp_ms: i64
    client_transaction_version: i16 = tagged(2, since=1, default=0, ignorable=True)
    last_producer_epoch: i16 = tagged(LAST_PRODUCER_EPOCH_TAG, since=1, default=-1, ignorable=True)


def encode(record: Record) -> tuple[bytes, bytes | None]:
    """The key and the value in the log; a value of None is a tombstone."""
    key = TransactionLogKey(transactional_id=record.transactional_id)
    if isinstance(record, TransactionTombstone):
        return to_bytes(StoredRecord(TRANSACTION, key))
    return to_bytes(StoredRecord(TRANSACTION, key, _value(record), VERSION))


def decode(key: bytes, value: bytes | None) -> Record | None:
    """The record, or None if its type is unknown, which a reader skips.

    DamagedRecord if the bytes do not match their type and version.
    """
    record: Record | None = from_bytes(_RECORD_TYPES, key, value)
    return record


def _value(transaction: Transaction) -> TransactionLogValue:
    partitions = None
    if transaction.state is not TransactionState.EMPTY:
        partitions = tuple(
            PartitionsSchema(topic=topic, partition_ids=tuple(each.partition for each in members))
            for topic, members in by_topic(sorted(transaction.partitions)).items()
        )
    return TransactionLogValue(
        producer_id=transaction.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        producer_epoch=transaction.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=partitions,
        transaction_last_update_timestamp_ms=transaction.update_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
        client_transaction_version=transaction.client_version,
        last_producer_epoch=transaction.last_producer_epoch,
    )


def _saved(key: TransactionLogKey, value: TransactionLogValue, _version: int) -> Transaction:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise DamagedRecord(f"a transaction in state {value.transaction_status}") from None
    return Transaction(
        transactional_id=key.transactional_id,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        timeout_ms=_shared(value.transaction_timeout_ms),
        state=state,
        partitions=_partitions(value),
        update_ms=value.transaction_last_update_timestamp_ms,
        start_ms=value.transaction_start_timestamp_ms,
        client_version=value.client_transaction_version,
        previous_producer_id=value.producer_id
        if value.previous_producer_id == value.producer_id
        else value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        last_producer_epoch=value.last_producer_epoch,
    )


def _partitions(value: TransactionLogValue) -> frozenset[TopicPartition]:
    if not value.transaction_partitions:
        return NO_PARTITIONS
    return frozenset(
        TopicPartition(topic.topic, index)
        for topic in value.transaction_partitions
        for index in topic.partition_ids
    )


@lru_cache(maxsize=64)
def _shared(timeout_ms: int) -> int:
    """The same object for equal timeouts: there are few different ones."""
    return timeout_ms


def _tombstone(key: TransactionLogKey) -> TransactionTombstone:
    return TransactionTombstone(key.transactional_id)


_RECORD_TYPES = {
    TRANSACTION: RecordType(TransactionLogKey, TransactionLogValue, _saved, _tombstone)
}
