"""Appends the batches of a produce request.

Most batches are appended at once. A batch that begins a transaction waits for the transaction's
coordinator, and a batch beyond the turn's budget for a thread. No batch overtakes another one of
its partition: a connection handles no request before all batches of the last one are appended.
"""

from typing import TYPE_CHECKING

from ottla.broker.requests.produce_outcomes import (
    ProduceOutcome,
    ProduceTerms,
    TopicOutcomes,
    Unadmitted,
    every,
    refused,
)
from ottla.broker.requests.record_work import RecordWorkQueueFull
from ottla.broker.requests.transaction_verification import (
    ProduceTransaction,
    RetryRules,
    UnverifiedBatch,
    verify,
)
from ottla.errors import PeerError
from ottla.metrics.meters import TopicCounters
from ottla.protocol.batch import BatchHeader
from ottla.replication.append.appender import AppendResult
from ottla.replication.lookup import TopicKey, find_replica
from ottla.replication.replica import Replica
from ottla.settings.table import transactions
from ottla.storage.admission.leader_checks import Admitted
from ottla.storage.admission.work_budget import BudgetSpent, WorkBudget

if TYPE_CHECKING:
    from ottla.broker.requests.services import Services


def append_batch(
    key: TopicKey,
    index: int,
    records: memoryview,
    header: BatchHeader | None,
    acks: int,
    transaction: ProduceTransaction | None,
    services: "Services",
    now_ms: int,
) -> ProduceOutcome:
    """Appends a batch, refuses it, or leaves it to `append_waiting`.

    `header` is the batch's header if it was read already, as that of a transactional one must be.
    """
    partitions = services.partitions
    replica = partitions.replicas.by_key.get((key, index))
    if replica is None or replica.is_unusable:
        return refused(ProduceOutcome(index), _why_not_found(services, key, index), services)
    counters = replica.counters or counters_of(replica, services)
    counters.produce_requests += 1
    produced = ProduceOutcome(index, replica)
    try:
        if transaction is not None and header is not None and _must_verify(replica, header):
            own = memoryview(bytearray(records))
            produced.unverified = UnverifiedBatch(replica, own, header)
            return produced
        produced.appended = partitions.appender.append(
            replica,
            records,
            acks=acks,
            transactional_id_given=transaction is not None,
            now_ms=now_ms,
            header=header,
        )
    except BudgetSpent:
        own = memoryview(bytearray(records))
        produced.unadmitted = Unadmitted(replica, own, acks, transaction is not None)
        return produced
    except PeerError as error:
        return _refused_batch(produced, replica, error, len(records), services)
    _count_in(replica, produced.appended, len(records), services)
    return produced


def _must_verify(replica: Replica, header: BatchHeader) -> bool:
    """Whether the coordinator must be asked. PeerError if the producer is fenced.

    If not, the append accepts or refuses the batch.
    """
    if not header.is_transactional or not header.has_producer:
        return False
    if replica.is_internal or not replica.partition.is_leader:
        return False
    log = replica.log
    return log is None or log.producers.begins_transaction(header)


async def append_waiting(answers: TopicOutcomes, terms: ProduceTerms, services: "Services") -> None:
    """Appends the batches that waited for a coordinator or for a thread."""
    waiting = [(each, each.unverified) for each in every(answers) if each.unverified is not None]
    try:
        if waiting and terms.transaction is not None:
            await _verify([batch for _, batch in waiting], terms.transaction, services)
            await services.records.verified_appends.enter()
            for produced, batch in waiting:
                _append_verified(produced, batch, terms.acks, services)
        for produced in every(answers):
            await _append_later(produced, services)
    finally:
        for produced, batch in waiting:
            batch.end(produced.error)


async def _verify(
    unverified: list[UnverifiedBatch], transaction: ProduceTransaction, services: "Services"
) -> None:
    """Each batch has a guard or a refusal then."""
    try:
        with services.records.work.holding(sum(len(batch.records) for batch in unverified)):
            retries = RetryRules(
                services.settings[transactions.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS],
                services.settings[transactions.ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS],
            )
            await verify(unverified, transaction, services.coordinators.verifier, retries)
    except RecordWorkQueueFull as error:
        for batch in unverified:
            batch.refusal = error


def _append_verified(
    produced: ProduceOutcome, batch: UnverifiedBatch, acks: int, services: "Services"
) -> None:
    """Appends a batch whose verification has an outcome."""
    produced.unverified = None
    replica, records = batch.replica, batch.records
    try:
        if batch.refusal is not None:
            raise batch.refusal
        produced.appended = services.partitions.appender.append(
            replica,
            records,
            acks=acks,
            transactional_id_given=True,
            now_ms=services.now_ms,
            header=batch.header,
            guard=batch.guard,
        )
    except BudgetSpent:
        produced.unadmitted = Unadmitted(replica, records, acks, True, batch.guard)
    except PeerError as error:
        _refused_batch(produced, replica, error, len(records), services)
    else:
        _count_in(replica, produced.appended, len(records), services)


async def _append_later(produced: ProduceOutcome, services: "Services") -> None:
    """Appends a batch after a thread has admitted it."""
    if produced.unadmitted is None:
        return
    replica, records, acks, transactional_id_given, guard = produced.unadmitted
    appender, now_ms = services.partitions.appender, services.now_ms

    def admit(budget: WorkBudget) -> Admitted:
        return appender.admit(replica, records, transactional_id_given, now_ms, budget)

    produced.unadmitted = None
    try:
        admitted = await services.records.work.run(admit, len(records))
        produced.appended = appender.append(
            replica,
            records,
            acks=acks,
            transactional_id_given=transactional_id_given,
            now_ms=services.now_ms,
            admitted=admitted,
            guard=guard,
        )
    except PeerError as error:
        _refused_batch(produced, replica, error, len(records), services)
        return
    _count_in(replica, produced.appended, len(records), services)


def _refused_batch(
    produced: ProduceOutcome,
    replica: Replica,
    error: PeerError,
    size_bytes: int,
    services: "Services",
) -> ProduceOutcome:
    counters = replica.counters or counters_of(replica, services)
    counters.failed_produce_requests += 1
    counters.bytes_rejected += size_bytes
    return refused(produced, error, services)


def _count_in(
    replica: Replica, appended: AppendResult, size_bytes: int, services: "Services"
) -> None:
    if appended.record_count:
        counters = replica.counters or counters_of(replica, services)
        counters.messages_in += appended.record_count
        counters.bytes_in += size_bytes


def counters_of(replica: Replica, services: "Services") -> TopicCounters:
    """The counters of a replica that has none yet."""
    counters = replica.counters = services.metrics.topic(replica.name.topic)
    return counters


def _why_not_found(services: "Services", key: TopicKey, index: int) -> PeerError:
    try:
        find_replica(services.partitions.replicas, services.image, key, index)
    except PeerError as error:
        return error
    raise RuntimeError(f"partition {index} of {key!r} is there after all")
