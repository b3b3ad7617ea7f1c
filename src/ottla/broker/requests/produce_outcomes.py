"""The outcome of each batch of a produce request, and the response."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.requests.current_leaders import CurrentLeaders
from ottla.broker.requests.transaction_verification import (
    NotVerified,
    ProduceTransaction,
    UnverifiedBatch,
)
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.produce import (
    Leader,
    NodeEndpoint,
    PartitionResult,
    ProduceResponse,
    RecordError,
    TopicResult,
)
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.replication.append.acknowledgement import Unacknowledged
from ottla.replication.append.appender import AppendResult, RefusedByLog
from ottla.replication.append.verification_guards import VerificationGuard
from ottla.replication.lookup import TopicKey
from ottla.replication.replica import Replica
from ottla.storage.admission.leader_checks import Refused

if TYPE_CHECKING:
    from ottla.broker.net.session import Session
    from ottla.broker.requests.services import Services

API_NAME = "Produce"
CURRENT_LEADER_SINCE = 10


class Unadmitted(NamedTuple):
    """A batch that exceeds the turn's budget, to be admitted in a thread. `records` is a copy."""

    replica: Replica
    records: memoryview
    acks: int
    transactional_id_given: bool
    guard: VerificationGuard | None = None


class ProduceOutcome:
    """The outcome of one partition's batch."""

    __slots__ = ("appended", "error", "index", "replica", "unadmitted", "unverified")

    def __init__(
        self, index: int, replica: Replica | None = None, appended: AppendResult | None = None
    ) -> None:
        self.index = index
        self.replica = replica
        self.appended = appended
        # Also set if an appended batch was not flushed or not replicated.
        self.error: PeerError | None = None
        # None once it is appended or refused.
        self.unadmitted: Unadmitted | None = None
        self.unverified: UnverifiedBatch | None = None

    @property
    def unacknowledged(self) -> Unacknowledged | None:
        """The append that the response may have to wait for."""
        if self.replica is None or self.appended is None or self.error is not None:
            return None
        return Unacknowledged(self.replica, self.appended)


TopicOutcomes = list[tuple[TopicKey, list[ProduceOutcome]]]


class ProduceTerms(NamedTuple):
    """The acknowledgement that the request requires before its response, its transaction, and its
    client.
    """

    acks: int
    timeout_ms: int
    transaction: ProduceTransaction | None
    version: int
    session: "Session"


def refused(produced: ProduceOutcome, error: PeerError, services: "Services") -> ProduceOutcome:
    """Notes and counts the refusal of a batch."""
    # The traceback would keep the stack frames, and the request's bytes with them, until the next
    # garbage collection.
    error.__traceback__ = error.__context__ = error.__cause__ = None
    produced.error = error
    services.metrics.request_refused(API_NAME, error.code.name)
    return produced


def refused_topics(
    topics: Iterable[tuple[TopicKey, list[int]]], error: PeerError, services: "Services"
) -> TopicOutcomes:
    """Refuses all batches of topics, which are given with the indexes of their partitions."""
    return [
        (key, [refused(ProduceOutcome(index), error, services) for index in indexes])
        for key, indexes in topics
    ]


def every(answers: TopicOutcomes) -> Iterator[ProduceOutcome]:
    """The outcomes of all partitions, in the order of the request."""
    for _, partitions in answers:
        yield from partitions


def response(
    answers: TopicOutcomes, version: int, session: "Session", services: "Services"
) -> ProduceResponse:
    """The response. A batch that another broker would take is answered with that leader."""
    leaders = None
    if version >= CURRENT_LEADER_SINCE and any(each.error for each in every(answers)):
        leaders = CurrentLeaders(services, session)
    responses = tuple(
        TopicResult(
            name=key if isinstance(key, str) else "",
            topic_id=ZERO_UUID if isinstance(key, str) else Uuid(key),
            partition_responses=tuple([_result(key, each, leaders) for each in partitions]),
        )
        for key, partitions in answers
    )
    named = () if leaders is None else leaders.brokers
    return ProduceResponse(
        responses=responses,
        node_endpoints=tuple(
            NodeEndpoint(node_id=each.broker_id, host=each.host, port=each.port, rack=each.rack)
            for each in named
        ),
    )


def _current_leader(
    key: TopicKey, produced: ProduceOutcome, leaders: CurrentLeaders | None
) -> Leader | None:
    if leaders is None or produced.error is None:
        return None
    leader = leaders.find(key, produced.index, produced.error.code)
    return None if leader is None else Leader(leader_id=leader[0], leader_epoch=leader[1])


def _result(
    key: TopicKey, produced: ProduceOutcome, leaders: CurrentLeaders | None
) -> PartitionResult:
    code = ErrorCode.NONE if produced.error is None else produced.error.code
    appended = produced.appended
    if appended is not None:
        return PartitionResult(
            index=produced.index,
            error_code=code,
            base_offset=appended.first_offset,
            log_append_time_ms=appended.log_append_time_ms,
            log_start_offset=appended.start_offset,
            current_leader=_current_leader(key, produced, leaders),
        )
    error = produced.error
    if not isinstance(error, RefusedByLog):
        message = str(error) if error is not None and _is_message_shown(error) else None
        return PartitionResult(
            index=produced.index,
            error_code=code,
            base_offset=-1,
            error_message=message,
            current_leader=_current_leader(key, produced, leaders),
        )
    record_errors = tuple(
        RecordError(batch_index=fault.number, batch_index_error_message=fault.reason)
        for fault in error.record_faults
    )
    return PartitionResult(
        index=produced.index,
        error_code=code,
        base_offset=-1,
        log_start_offset=error.start_offset,
        record_errors=record_errors,
        error_message=str(error) if record_errors else None,
    )


def _is_message_shown(error: PeerError) -> bool:
    """Whether Kafka would send a message with this error."""
    return isinstance(error, NotVerified) or (isinstance(error, Refused) and error.is_message_shown)
