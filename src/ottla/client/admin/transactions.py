"""Administration of transactions: list, describe, fence a producer, abort in one partition."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla.address import Address
from ottla.client.connection.connection import Connection
from ottla.client.errors import Refused, UnsupportedByBroker, raise_if_refused, refusal
from ottla.client.routing.coordinators import CoordinatorKey
from ottla.client.routing.outcomes import Outcomes, unwrap
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages import (
    describe_producers,
    describe_transactions,
    init_producer_id,
    list_transactions,
    write_txn_markers,
)
from ottla.protocol.primitives import EncodeError
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition, by_topic

ONGOING, PREPARE_COMMIT = "Ongoing", "PrepareCommit"
# Some partitions have no marker yet.
OPEN_STATES = (ONGOING, PREPARE_COMMIT, "PrepareAbort")
# The states that a coordinator may report; Dead and PrepareEpochFence only for a moment.
STATES = ("Empty", *OPEN_STATES, "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence")
# A leader examines all of them before it does anything else.
_PARTITIONS_PER_REQUEST_MAX = 500
# Does not limit the duration.
_ANY_DURATION = -1


class TransactionFilter(NamedTuple):
    """The transactions to list. Empty and None do not limit the list.

    `older_than_ms` needs Kafka 3.8, `pattern` (a regular expression of RE2) Kafka 4.1.
    """

    states: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    older_than_ms: int | None = None
    pattern: str | None = None


EVERY_TRANSACTION = TransactionFilter()


class ListedTransaction(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class DescribedTransaction:
    """A transactional id and its transaction.

    `partitions` are those that still get a marker. `start_ms` is None if there was none yet.
    """

    transactional_id: str
    state: str
    producer: ProducerIdAndEpoch
    timeout_ms: int
    start_ms: int | None
    coordinator: Address
    partitions: frozenset[TopicPartition]


class PartitionProducer(NamedTuple):
    """A producer as the leader of a partition knows it.

    `coordinator_epoch` is None before its first marker, `start_offset` if it has no open
    transaction there.
    """

    producer: ProducerIdAndEpoch
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int | None
    start_offset: int | None


class OpenTransaction(NamedTuple):
    """A transaction that is open in a partition, by its leader."""

    partition: TopicPartition
    producer: ProducerIdAndEpoch
    coordinator_epoch: int | None
    start_offset: int
    last_timestamp_ms: int


async def list_all_transactions(
    router: Router, wanted: TransactionFilter = EVERY_TRANSACTION
) -> list[ListedTransaction]:
    """The transactional ids of all brokers, in the order of names. Refused if a broker refuses."""
    topology = await router.retrying(lambda: router.refresh(()))
    listed = [await _transactions_at(router, node_id, wanted) for node_id in topology.brokers]
    return sorted({transaction for each in listed for transaction in each})


async def describe_transaction(router: Router, transactional_id: str) -> DescribedTransaction:
    """Refused with TRANSACTIONAL_ID_NOT_FOUND if there is no such id."""
    key = CoordinatorKey(transactional_id, CoordinatorType.TRANSACTION)
    request = describe_transactions.DescribeTransactionsRequest(
        transactional_ids=(transactional_id,)
    )
    answer: describe_transactions.DescribeTransactionsResponse = await router.ask_coordinator(
        key, request, lambda answer: [each.error_code for each in answer.transaction_states]
    )
    what = f"transactional id {transactional_id}"
    if len(answer.transaction_states) != 1:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, what, "the answer lacks it")
    (found,) = answer.transaction_states
    raise_if_refused(found.error_code, what)
    return DescribedTransaction(
        transactional_id,
        found.transaction_state,
        ProducerIdAndEpoch(found.producer_id, found.producer_epoch),
        found.transaction_timeout_ms,
        found.transaction_start_time_ms if found.transaction_start_time_ms >= 0 else None,
        (await router.find_coordinator(key)).address,
        frozenset(
            TopicPartition(topic.topic, index)
            for topic in found.topics
            for index in topic.partitions
        ),
    )


async def describe_partition_producers(
    router: Router, partitions: Sequence[TopicPartition]
) -> Outcomes[tuple[PartitionProducer, ...]]:
    """The producers that the leader of each partition knows."""

    async def ask(
        leader: Connection, asked: Sequence[TopicPartition]
    ) -> Outcomes[tuple[PartitionProducer, ...]]:
        request = describe_producers.DescribeProducersRequest(
            topics=tuple(
                describe_producers.RequestedTopic(
                    name=topic, partition_indexes=tuple(each.partition for each in own)
                )
                for topic, own in by_topic(asked).items()
            )
        )
        return _producers_in_response(await leader.ask(request))

    outcomes: Outcomes[tuple[PartitionProducer, ...]] = {}
    for first in range(0, len(partitions), _PARTITIONS_PER_REQUEST_MAX):
        some = partitions[first : first + _PARTITIONS_PER_REQUEST_MAX]
        outcomes |= await router.ask_leaders(some, ask)
    return outcomes


def open_transactions(
    partition: TopicPartition, producers: Sequence[PartitionProducer]
) -> list[OpenTransaction]:
    """The transactions that are open in a partition, in the order of their first offsets."""
    found = [
        OpenTransaction(
            partition,
            each.producer,
            each.coordinator_epoch,
            each.start_offset,
            each.last_timestamp_ms,
        )
        for each in producers
        if each.start_offset is not None
    ]
    return sorted(found, key=lambda each: each.start_offset)


async def fence_producer(
    router: Router, transactional_id: str, timeout_ms: int
) -> ProducerIdAndEpoch:
    """Aborts the open transaction of an id and fences its producer; returns the next epoch.

    `timeout_ms` becomes the id's transaction timeout. Creates an id that does not exist. Refused.
    """
    key = CoordinatorKey(transactional_id, CoordinatorType.TRANSACTION)
    request = init_producer_id.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )

    async def ask() -> ProducerIdAndEpoch:
        async with router.coordinator(key) as connection:
            answer: init_producer_id.InitProducerIdResponse = await connection.ask(request)
            # CONCURRENT_TRANSACTIONS is retried until the markers are written.
            raise_if_refused(answer.error_code, f"transactional id {transactional_id}")
            return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)

    return await router.retrying(ask)


async def write_abort_marker(router: Router, transaction: OpenTransaction) -> None:
    """Aborts a transaction in one partition, without its coordinator. Refused.

    Only for a transaction that no coordinator will end: any other would be aborted in part.
    """
    partition, producer = transaction.partition, transaction.producer

    async def ask(leader: Connection, _: Sequence[TopicPartition]) -> Outcomes[None]:
        marker = write_txn_markers.Marker(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            transaction_result=False,
            topics=(
                write_txn_markers.Topic(
                    name=partition.topic, partition_indexes=(partition.partition,)
                ),
            ),
            # Before its first marker a producer has none. No coordinator's is lower than 0.
            coordinator_epoch=transaction.coordinator_epoch or 0,
        )
        request = write_txn_markers.WriteTxnMarkersRequest(markers=(marker,))
        answer: write_txn_markers.WriteTxnMarkersResponse = await leader.ask(request)
        return {
            TopicPartition(topic.name, each.partition_index): refusal(
                each.error_code, f"marker for {partition}"
            )
            for result in answer.markers
            for topic in result.topics
            for each in topic.partitions
        }

    unwrap((await router.ask_leaders([partition], ask))[partition])


async def _transactions_at(
    router: Router, node_id: int, wanted: TransactionFilter
) -> list[ListedTransaction]:
    request = list_transactions.ListTransactionsRequest(
        state_filters=wanted.states,
        producer_id_filters=wanted.producer_ids,
        duration_filter=_ANY_DURATION if wanted.older_than_ms is None else wanted.older_than_ms,
        transactional_id_pattern=wanted.pattern,
    )

    async def ask() -> list[ListedTransaction]:
        connection = await router.broker(node_id)
        try:
            answer: list_transactions.ListTransactionsResponse = await connection.ask(request)
        except EncodeError as error:
            raise UnsupportedByBroker(
                f"broker {node_id} cannot list transactions by {error.field}: its version of"
                " ListTransactions is too old"
            ) from error
        raise_if_refused(answer.error_code, f"transactions of broker {node_id}")
        if answer.unknown_state_filters:
            unknown = ", ".join(answer.unknown_state_filters)
            raise UnsupportedByBroker(f"broker {node_id} does not know the state {unknown}")
        return [
            ListedTransaction(
                each.transactional_id, each.producer_id, each.transaction_state, node_id
            )
            for each in answer.transaction_states
        ]

    return await router.retrying(ask)


def _producers_in_response(
    answer: describe_producers.DescribeProducersResponse,
) -> Outcomes[tuple[PartitionProducer, ...]]:
    outcomes: Outcomes[tuple[PartitionProducer, ...]] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            refused = refusal(each.error_code, f"producers of {partition}", each.error_message)
            outcomes[partition] = refused or tuple(map(_producer, each.active_producers))
    return outcomes


def _producer(response: describe_producers.Producer) -> PartitionProducer:
    start_offset, epoch = response.current_txn_start_offset, response.coordinator_epoch
    return PartitionProducer(
        ProducerIdAndEpoch(response.producer_id, response.producer_epoch),
        response.last_sequence,
        response.last_timestamp,
        epoch if epoch >= 0 else None,
        start_offset if start_offset >= 0 else None,
    )
