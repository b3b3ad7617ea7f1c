"""Verifies the transaction of a produce request with its coordinator (KIP-890).

A leader asks before a batch begins a transaction in its partition, once for all such partitions of
a request. From Produce v12 on (transaction.version 2) the question adds the partitions to the
transaction; producers of earlier versions have added them by AddPartitionsToTxn.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from ottla.coordinators.txn.verification import TransactionVerifier, Verification
from ottla.errors import RETRIABLE, ErrorCode, PeerError
from ottla.protocol.batch import BatchHeader
from ottla.replication.append.verification_guards import VerificationGuard
from ottla.replication.replica import Replica

ABORTABLE_SINCE = 11
ADDS_SINCE = 12

# The coordinator gave no answer. Producers of all versions retry NOT_ENOUGH_REPLICAS, and at once.
_UNANSWERED = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_REASONS = {
    ErrorCode.TRANSACTION_ABORTABLE: ", the partition was not added to it",
    ErrorCode.PRODUCER_FENCED: ", the producer is fenced by a later one",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ", the transactional id has no such producer id",
    ErrorCode.CONCURRENT_TRANSACTIONS: ", the markers of the last one are still being written",
}
# Errors after which a producer sends the same batch again.
_RETRIED = RETRIABLE | {ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}


class ProduceTransaction(NamedTuple):
    """The transactional id of a produce request, and the version of the request."""

    transactional_id: str
    version: int

    @property
    def adds(self) -> bool:
        """Whether the leader adds the partitions to the transaction."""
        return self.version >= ADDS_SINCE


class RetryRules(NamedTuple):
    """While the markers of the producer's previous transaction are written, the leader asks again.

    The producer gets CONCURRENT_TRANSACTIONS after `timeout_ms`, and has to send its records again.
    """

    backoff_ms: int
    timeout_ms: int


class NotVerified(PeerError):
    """The coordinator did not confirm the transaction. As in Kafka, the client sees the reason."""


class UnverifiedBatch:
    """A batch that begins a transaction in its partition. It is verified once it has a guard.

    `records` is a copy: the batch waits for the coordinator.
    """

    __slots__ = ("guard", "header", "records", "refusal", "replica")

    def __init__(self, replica: Replica, records: memoryview, header: BatchHeader) -> None:
        self.replica = replica
        self.records = records
        self.header = header
        self.guard: VerificationGuard | None = None
        self.refusal: PeerError | None = None

    def begin(self, *, adds: bool) -> bool:
        """Begins the guard. False if the batch is refused."""
        header = self.header
        self.refusal = None
        # With transaction.version 2 every transaction has an epoch of its own, which begins at 0.
        sequence = 0 if adds else header.base_sequence
        leader_epoch = self.replica.partition.leader_epoch
        try:
            self.guard = self.replica.verifications.begin(
                header.producer_id, header.producer_epoch, sequence, leader_epoch
            )
        except PeerError as error:
            self.refusal = error
            return False
        return True

    def refuse(self, code: ErrorCode, version: int) -> None:
        """Takes the coordinator's error code."""
        self.refusal = NotVerified(
            produce_code(code, version),
            f"The transaction could not be verified: {code.name}{_REASONS.get(code, '')}.",
        )
        self.end(self.refusal)

    def end(self, error: PeerError | None = None) -> None:
        """Ends the guard, if there is one. `error` is the client's answer."""
        if self.guard is not None:
            is_retried = error is not None and error.code in _RETRIED
            self.replica.verifications.end(self.guard, is_retried=is_retried)
            self.guard = None


async def verify(
    batches: Sequence[UnverifiedBatch],
    transaction: ProduceTransaction,
    verifier: TransactionVerifier,
    retries: RetryRules,
) -> None:
    """Verifies batches of one producer. Each has a guard or a refusal then.

    The caller appends the batches and ends the guards.
    """
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + retries.timeout_ms / 1000
    try:
        while True:
            # The marker of the previous transaction invalidates guards: each try has its own.
            guarded = [batch for batch in batches if batch.begin(adds=transaction.adds)]
            codes = await verifier.verify(_question(guarded, transaction)) if guarded else {}
            is_concurrent = ErrorCode.CONCURRENT_TRANSACTIONS in codes.values()
            if not (transaction.adds and is_concurrent) or loop.time() >= give_up_at:
                break
            for batch in guarded:
                batch.refuse(ErrorCode.CONCURRENT_TRANSACTIONS, transaction.version)
            await asyncio.sleep(retries.backoff_ms / 1000)
    except BaseException:
        for batch in batches:
            batch.end()
        raise
    for batch in guarded:
        code = codes.get(batch.replica.name, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if code is not ErrorCode.NONE:
            batch.refuse(code, transaction.version)


def produce_code(code: ErrorCode, version: int) -> ErrorCode:
    """The error code of a Produce response for a coordinator's error code."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if code in _UNANSWERED:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return code


def _question(batches: Sequence[UnverifiedBatch], transaction: ProduceTransaction) -> Verification:
    header = batches[0].header
    return Verification(
        transaction.transactional_id,
        header.producer_id,
        header.producer_epoch,
        # A request may name a partition twice.
        tuple(dict.fromkeys(batch.replica.name for batch in batches)),
        transaction.adds,
        max(batch.replica.coordinator_epoch_of(header.producer_id) for batch in batches),
    )
