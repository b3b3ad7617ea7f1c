"""The transactional ids of one shard of the transaction coordinator. Decides, does no I/O."""

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import NamedTuple

from ottla.coordinators.runtime.decision import NOTHING, Answered, TimerSet
from ottla.coordinators.runtime.machine import WithoutTransactions
from ottla.coordinators.txn import changes
from ottla.coordinators.txn.changes import WITHOUT_BUMP
from ottla.coordinators.txn.decision import Decision, WriteMarkers
from ottla.coordinators.txn.records import Record, TransactionTombstone, decode, encode
from ottla.coordinators.txn.states import (
    END_AND_BUMP,
    END_AT_CURRENT_EPOCH,
    END_CODES,
    END_RETRIED,
    IDLE,
    MARKERS,
    PREPARED,
    EndOutcome,
    EndRule,
    TransactionState,
)
from ottla.coordinators.txn.transaction import EPOCH_BUMPED_SINCE, Transaction
from ottla.errors import ErrorCode, PeerError
from ottla.metrics.meters import TransactionMeter
from ottla.protocol.batch import MarkerKind
from ottla.protocol.producer_epoch import (
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    PRODUCER_EPOCH_MAX,
    ProducerIdAndEpoch,
    is_exhausted,
)
from ottla.protocol.topic_partition import TopicPartition

EXPIRY_TIMER = "expiry"
TIMEOUT_TIMER = "timeout"
# Bounds the time of one decision: other requests are handled between decisions.
MAX_EXAMINED_PER_DECISION = 1_000

_ONGOING = TransactionState.ONGOING


class TransactionRules(NamedTuple):
    """The settings in force for all transactional ids."""

    timeout_ms_max: int
    timeout_check_interval_ms: int
    id_expiration_ms: int
    expiry_check_interval_ms: int
    ids_max: int
    partitions_max: int


class InitRequest(NamedTuple):
    """An InitProducerId. `expected` is the producer that renews its epoch (KIP-360), if any."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None


class AddRequest(NamedTuple):
    """Partitions for a transaction, from its producer or, with KIP-890, from partition leaders."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]
    client_version: int


class EndRequest(NamedTuple):
    """An EndTxn. A client of transaction version 2 wants its epoch bumped."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    kind: MarkerKind
    client_version: int


class TransactionMachine(WithoutTransactions[Record]):
    """The `Machine` of a shard of the transaction coordinator.

    `new_producer_id` takes an id from a reserved block; PeerError if there is none now.
    `transaction_version` returns the finalized level of that feature: it applies to the aborts that
    the coordinator itself decides. `rules` returns the settings in force.
    """

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    def __init__(
        self,
        rules: Callable[[], TransactionRules],
        new_producer_id: Callable[[], int],
        transaction_version: Callable[[], int],
        meter: TransactionMeter | None = None,
    ) -> None:
        self.transactions: dict[str, Transaction] = {}
        self._rules = rules
        self._new_producer_id = new_producer_id
        self._transaction_version = transaction_version
        self._meter = meter or TransactionMeter()
        # The ids that this round of expiry has yet to examine.
        self._to_examine: deque[str] = deque()

    # Requests

    def init(self, request: InitRequest, ticket: Hashable, now_ms: int) -> Decision:
        """Answers with the producer's id and epoch. PeerError if the request is refused.

        An open transaction is aborted first: the client gets CONCURRENT_TRANSACTIONS and retries.
        """
        transactional_id, timeout_ms, expected = request
        rules = self._rules()
        if not 0 < timeout_ms <= rules.timeout_ms_max:
            raise PeerError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"a timeout of {timeout_ms} ms; at most {rules.timeout_ms_max} ms are allowed",
            )
        before = self.transactions.get(transactional_id)
        if before is None:
            if len(self.transactions) >= rules.ids_max:
                raise PeerError(
                    ErrorCode.POLICY_VIOLATION, f"there are {rules.ids_max} transactional ids"
                )
            producer_id = self._new_producer_id()
            return _initialized(
                changes.created(transactional_id, producer_id, timeout_ms, now_ms), ticket
            )
        if expected is not None and not _may_renew(before, expected):
            raise _fenced(before, expected)
        if before.state in PREPARED:
            raise _concurrent(before)
        if before.state is _ONGOING:
            return self._fence(before, now_ms, (Answered(ticket, _concurrent(before)),))
        producer, last_epoch = self._next_producer(before, expected)
        after = changes.initialized(before, producer, last_epoch, timeout_ms, now_ms)
        return _initialized(after, ticket)

    def add_partitions(self, request: AddRequest, ticket: Hashable, now_ms: int) -> Decision:
        """Answers with None. PeerError if the request is refused."""
        before = self._of_producer(request.transactional_id, request.producer)
        if before.state in PREPARED:
            raise _concurrent(before)
        answers = (Answered(ticket, None),)
        if before.state is _ONGOING and request.partitions <= before.partitions:
            return Decision(answers=answers)
        after = changes.with_partitions(before, request.partitions, request.client_version, now_ms)
        if len(after.partitions) > self._rules().partitions_max:
            raise PeerError(
                ErrorCode.POLICY_VIOLATION,
                f"{len(after.partitions)} partitions; {self._rules().partitions_max} may be in one"
                " transaction",
            )
        timers = () if before.state is _ONGOING else (self._timeout_of(after, now_ms),)
        return Decision((after,), answers, timers)

    def verify(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
    ) -> dict[TopicPartition, ErrorCode]:
        """NONE for each partition of the open transaction. PeerError if there is none."""
        transaction = self._of_producer(transactional_id, producer)
        if transaction.state in PREPARED:
            raise _concurrent(transaction)
        return {
            partition: ErrorCode.NONE
            if partition in transaction.partitions
            else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    def end(self, request: EndRequest, ticket: Hashable, now_ms: int) -> Decision:
        """Answers with the producer's next id and epoch. PeerError if the request is refused."""
        transactional_id, producer, kind, client_version = request
        before = self._get(transactional_id)
        rule = self._end_rule(before, producer, client_version)
        outcome = rule.of(kind)
        code = END_CODES[outcome]
        if code is not ErrorCode.NONE:
            raise PeerError(code, f"{transactional_id} is in state {before.state.kafka_name}")
        if outcome is EndOutcome.IS_REPEATED:
            current = ProducerIdAndEpoch(before.producer_id, before.producer_epoch)
            return Decision(answers=(Answered(ticket, current),))
        next_producer_id = self._next_producer_id(before, client_version)
        after = changes.prepared(before, kind, client_version, now_ms, next_producer_id)
        if kind is MarkerKind.COMMIT:
            self._meter.commits += 1
        else:
            self._meter.aborts += 1
        return _prepared(after, (Answered(ticket, _next_of(after)),))

    def markers_written(self, written: WriteMarkers, now_ms: int) -> Decision:
        """All markers of a transaction are written, or their partitions no longer exist."""
        before = self.transactions.get(written.transactional_id)
        if (
            before is None
            or before.state not in PREPARED
            or (before.producer_id, before.producer_epoch)
            != (written.producer_id, written.producer_epoch)
        ):
            return NOTHING
        return Decision((changes.completed(before, now_ms),))

    # Loading, timers, replay

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        yield Decision(timers=(self._next_expiry(now_ms),))
        for transaction in list(self.transactions.values()):
            if transaction.state is _ONGOING:
                yield Decision(timers=(self._timeout_of(transaction, now_ms),))
            elif transaction.state in PREPARED:
                yield Decision(effects=(_markers_of(transaction),))

    def timer_expired(self, timer_key: str, now_ms: int) -> Decision:
        if timer_key == EXPIRY_TIMER:
            return self._expire_ids(now_ms)
        _, _, transactional_id = timer_key.partition("/")
        transaction = self.transactions.get(transactional_id)
        if transaction is None or transaction.state is not _ONGOING:
            return NOTHING
        decision = self._fence(transaction, now_ms)
        self._meter.timeouts += 1
        return decision

    def replay(self, record: Record) -> None:
        if isinstance(record, TransactionTombstone):
            self.transactions.pop(record.transactional_id, None)
        else:
            self.transactions[record.transactional_id] = record

    # Parts

    def _get(self, transactional_id: str) -> Transaction:
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise PeerError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"no such transactional id: {transactional_id}",
            )
        return transaction

    def _of_producer(self, transactional_id: str, producer: ProducerIdAndEpoch) -> Transaction:
        """The transactional id of this producer. PeerError if it is another's or was fenced."""
        transaction = self._get(transactional_id)
        _check_id(transaction, producer)
        if transaction.producer_epoch != producer.producer_epoch:
            raise _fenced(transaction, producer)
        return transaction

    def _end_rule(
        self, before: Transaction, producer: ProducerIdAndEpoch, client_version: int
    ) -> EndRule:
        """The rule for this producer. PeerError if it is another or was fenced."""
        epoch = producer.producer_epoch
        if client_version < EPOCH_BUMPED_SINCE:
            _check_id(before, producer)
            if epoch != before.producer_epoch:
                raise _fenced(before, producer)
            return END_AT_CURRENT_EPOCH[before.state]
        # The epochs of its former id were used up: the answer with the new id was lost.
        is_retry_of_last_epoch = (
            producer.producer_id == before.previous_producer_id != before.producer_id
            and epoch == PRODUCER_EPOCH_MAX - 1
            and before.producer_epoch == 0
        )
        if not is_retry_of_last_epoch:
            _check_id(before, producer)
            if epoch == before.producer_epoch:
                return END_AND_BUMP[before.state]
        rule = END_RETRIED.get(before.state)
        is_retry = is_retry_of_last_epoch or self._was_bumped_from(epoch, before)
        if rule is None or not is_retry:
            raise _fenced(before, producer)
        return rule

    def _was_bumped_from(self, epoch: int, before: Transaction) -> bool:
        """Whether the end of the last transaction has bumped this epoch.

        If that transaction was of an older client, InitProducerId gave the current epoch to it: the
        producer of the epoch before is fenced. Kafka would take it for the other one.
        """
        return epoch + 1 == before.producer_epoch and (
            before.bumps_epoch or self._transaction_version() < EPOCH_BUMPED_SINCE
        )

    def _next_producer(
        self, before: Transaction, expected: ProducerIdAndEpoch | None
    ) -> tuple[ProducerIdAndEpoch, int]:
        """The producer that InitProducerId returns, and the epoch from which it may be repeated."""
        epoch = before.producer_epoch
        last_epoch = NO_PRODUCER_EPOCH if expected is None else epoch
        if is_exhausted(epoch) and (expected is None or expected.producer_epoch == epoch):
            return ProducerIdAndEpoch(self._new_producer_id(), 0), last_epoch
        if expected is None or expected.producer_epoch == epoch:
            return ProducerIdAndEpoch(before.producer_id, epoch + 1), last_epoch
        if expected.producer_epoch == before.last_producer_epoch:
            # The answer to an earlier request was lost.
            repeated = ProducerIdAndEpoch(before.producer_id, epoch)
            return repeated, before.last_producer_epoch
        raise _fenced(before, expected)

    def _fence(
        self, before: Transaction, now_ms: int, answers: tuple[Answered, ...] = ()
    ) -> Decision:
        version = self._transaction_version()
        next_producer_id = self._next_producer_id(before, version)
        self._meter.aborts += 1
        after = changes.fenced(before, version, now_ms, next_producer_id)
        return _prepared(after, answers)

    def _next_producer_id(self, before: Transaction, transaction_version: int) -> int:
        """The id that replaces this one with the end of its transaction, if its epochs are used up.

        An older client keeps its id: InitProducerId replaces it. PeerError if there is none now.
        """
        if transaction_version >= EPOCH_BUMPED_SINCE and is_exhausted(before.producer_epoch):
            return self._new_producer_id()
        return NO_PRODUCER_ID

    def _timeout_of(self, transaction: Transaction, now_ms: int) -> TimerSet:
        """When the transaction is aborted: at the first check after its timeout."""
        # A start in the future is from a clock that was set back since.
        start_ms = min(transaction.start_ms, now_ms)
        interval_ms = self._rules().timeout_check_interval_ms
        due_ms = -(-(start_ms + transaction.timeout_ms) // interval_ms) * interval_ms
        return TimerSet(_timeout_key(transaction.transactional_id), due_ms)

    def _next_expiry(self, now_ms: int) -> TimerSet:
        interval_ms = self._rules().expiry_check_interval_ms
        return TimerSet(EXPIRY_TIMER, now_ms if self._to_examine else now_ms + interval_ms)

    def _expire_ids(self, now_ms: int) -> Decision:
        """Examines some ids. The timer is due at once for the rest, then for the next round."""
        if not self._to_examine:
            self._to_examine.extend(self.transactions)
        expired_ms = now_ms - self._rules().id_expiration_ms
        records: list[Record] = []
        for _ in range(min(MAX_EXAMINED_PER_DECISION, len(self._to_examine))):
            transaction = self.transactions.get(self._to_examine.popleft())
            if (
                transaction is not None
                and transaction.state in IDLE
                and transaction.update_ms <= expired_ms
            ):
                records.append(TransactionTombstone(transaction.transactional_id))
        self._meter.expirations += len(records)
        return Decision(tuple(records), timers=(self._next_expiry(now_ms),))


def _may_renew(before: Transaction, expected: ProducerIdAndEpoch) -> bool:
    """Whether this producer may renew its epoch (KIP-360); its epoch is checked later.

    It is the current producer, or the previous one that repeats its last request.
    """
    return expected.producer_id == before.producer_id or (
        expected.producer_id == before.previous_producer_id
        and is_exhausted(expected.producer_epoch)
    )


def _check_id(transaction: Transaction, producer: ProducerIdAndEpoch) -> None:
    if transaction.producer_id != producer.producer_id:
        raise PeerError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"{transaction.transactional_id} is of producer {transaction.producer_id},"
            f" not {producer.producer_id}",
        )


def _fenced(transaction: Transaction, producer: ProducerIdAndEpoch) -> PeerError:
    return PeerError(
        ErrorCode.PRODUCER_FENCED,
        f"{transaction.transactional_id}: producer {producer.producer_id} epoch"
        f" {producer.producer_epoch} is over, {transaction.producer_id} epoch"
        f" {transaction.producer_epoch} has begun",
    )


def _concurrent(transaction: Transaction) -> PeerError:
    return PeerError(
        ErrorCode.CONCURRENT_TRANSACTIONS,
        f"{transaction.transactional_id}: the last transaction is not over yet",
    )


def _initialized(after: Transaction, ticket: Hashable) -> Decision:
    producer = ProducerIdAndEpoch(after.producer_id, after.producer_epoch)
    return Decision((after,), (Answered(ticket, producer),))


def _prepared(after: Transaction, answers: tuple[Answered, ...]) -> Decision:
    timers = (TimerSet(_timeout_key(after.transactional_id), None),)
    return Decision((after,), answers, timers, (_markers_of(after),))


def _markers_of(transaction: Transaction) -> WriteMarkers:
    # The last epoch of all has none above it. Ottla 0.1.0 gave it to clients after a timeout.
    is_bumped = transaction.producer_epoch != transaction.last_producer_epoch
    return WriteMarkers(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        MARKERS[transaction.state],
        transaction.client_version if is_bumped else WITHOUT_BUMP,
        transaction.partitions,
    )


def _next_of(transaction: Transaction) -> ProducerIdAndEpoch:
    """The producer after this transaction. Only clients of transaction version 2 look at it."""
    if not transaction.bumps_epoch:
        return NO_PRODUCER
    if transaction.next_producer_id != NO_PRODUCER_ID:
        return ProducerIdAndEpoch(transaction.next_producer_id, 0)
    return ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)


def _timeout_key(transactional_id: str) -> str:
    return f"{TIMEOUT_TIMER}/{transactional_id}"
