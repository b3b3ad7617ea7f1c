"""Verification (KIP-890): a leader asks the coordinator before it opens a transaction.

A transaction that the coordinator does not know would never get its marker. A producer of
transaction.version 2 does not send AddPartitionsToTxn: the leader adds the partition instead.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from ottla.errors import ErrorCode
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.producers.entry import NO_EPOCH


class Verification(NamedTuple):
    """The partitions of a transaction. `adds` adds the missing ones.

    `coordinator_epoch` is the latest one in the producer's markers, -1 without any. A coordinator
    of an earlier epoch was deposed, also if it does not know that: it may take for open what its
    successor has ended.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: Sequence[TopicPartition]
    adds: bool
    coordinator_epoch: int = NO_EPOCH


class TransactionVerifier(Protocol):
    """Reaches the coordinator of a transactional id, on this broker or on another."""

    async def verify(self, verification: Verification) -> Mapping[TopicPartition, ErrorCode]:
        """The error code of each partition: NONE if its transaction is open at the coordinator.

        The codes are the coordinator's own (TRANSACTION_ABORTABLE, PRODUCER_FENCED and so on). A
        coordinator that cannot be reached, is loading or has moved gives its retriable code.
        """
        ...
