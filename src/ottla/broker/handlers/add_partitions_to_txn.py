"""AddPartitionsToTxn (24) v0-5. Producers send v0-3; from v4 on brokers send it, for the
transactions of many producers, to add partitions or only to verify them (KIP-890). Gaps: none.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

from ottla.broker.requests.authorization import (
    CLUSTER,
    topic_resource,
    transactional_id_resource,
)
from ottla.broker.requests.call import Call
from ottla.broker.requests.fenced_producers import fenced_code
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.topic_names import is_internal
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    PartitionResult,
    Topic,
    TopicResult,
    Transaction,
    TransactionResult,
)
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition

FROM_BROKERS_SINCE = 4
FENCED_SINCE = 2
# The transaction version of the client, given the version of its request.
CLIENT_VERSION = 0
CLIENT_VERSION_BY_BROKERS = 2
# Other requests have their turn after so many transactions.
TRANSACTIONS_PER_TURN = 32

_Codes = Mapping[TopicPartition, ErrorCode]


async def handle(request: AddPartitionsToTxnRequest, call: Call) -> AddPartitionsToTxnResponse:
    if call.version < FROM_BROKERS_SINCE:
        transaction = Transaction(
            transactional_id=request.v3_and_below_transactional_id,
            producer_id=request.v3_and_below_producer_id,
            producer_epoch=request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        codes = await _add_of_client(transaction, call)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=_results(transaction.topics, codes)
        )
    call.require(CLUSTER)
    # They wait for replication together.
    added: list[asyncio.Task[_Codes]] = []
    async with asyncio.TaskGroup() as group:
        for each in request.transactions:
            adding = _add_of_broker(each, call)
            added.append(group.create_task(adding, name="add partitions"))
            if len(added) % TRANSACTIONS_PER_TURN == 0:
                await asyncio.sleep(0)
    return AddPartitionsToTxnResponse(
        results_by_transaction=tuple(
            TransactionResult(
                transactional_id=each.transactional_id,
                topic_results=_results(each.topics, codes.result()),
            )
            for each, codes in zip(request.transactions, added, strict=True)
        )
    )


async def _add_of_client(transaction: Transaction, call: Call) -> _Codes:
    """Adds all partitions or none: one that is refused keeps the others from it."""
    call.require(transactional_id_resource(transaction.transactional_id))
    partitions = _partitions(transaction.topics)
    refused = {name: code for name in partitions if (code := _refusal(name, call))}
    if refused:
        return {name: refused.get(name, ErrorCode.OPERATION_NOT_ATTEMPTED) for name in partitions}
    return await _add(transaction, partitions, CLIENT_VERSION, call)


def _refusal(name: TopicPartition, call: Call) -> ErrorCode | None:
    # Only the coordinators write to internal topics.
    if is_internal(name.topic) or not call.may(topic_resource(name.topic)):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if not call.services.image.has_partition(*name):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return None


async def _add_of_broker(transaction: Transaction, call: Call) -> _Codes:
    partitions = _partitions(transaction.topics)
    image = call.services.image
    unknown = {name for name in partitions if not image.has_partition(*name)}
    if unknown:
        return {
            name: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if name in unknown
            else ErrorCode.OPERATION_NOT_ATTEMPTED
            for name in partitions
        }
    if transaction.verify_only:
        return await _verify(transaction, partitions, call)
    return await _add(transaction, partitions, CLIENT_VERSION_BY_BROKERS, call)


async def _add(
    transaction: Transaction, partitions: Sequence[TopicPartition], client_version: int, call: Call
) -> _Codes:
    from ottla.coordinators.txn.machine import AddRequest

    request = AddRequest(
        transaction.transactional_id,
        ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch),
        frozenset(partitions),
        client_version,
    )
    try:
        _require_id(transaction)
        shard = call.services.coordinators.transactions.of(transaction.transactional_id)
        await shard.ask(
            lambda ticket, now_ms: shard.machine.add_partitions(request, ticket, now_ms)
        )
    except PeerError as error:
        return _refused(partitions, error, call)
    return dict.fromkeys(partitions, ErrorCode.NONE)


async def _verify(
    transaction: Transaction, partitions: Sequence[TopicPartition], call: Call
) -> _Codes:
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    try:
        _require_id(transaction)
        shard = call.services.coordinators.transactions.of(transaction.transactional_id)
        return await shard.read(
            lambda _: shard.machine.verify(transaction.transactional_id, producer, partitions)
        )
    except PeerError as error:
        return _refused(partitions, error, call)


def _require_id(transaction: Transaction) -> None:
    if not transaction.transactional_id:
        raise PeerError(ErrorCode.INVALID_REQUEST, "an empty transactional id")


def _refused(partitions: Iterable[TopicPartition], error: PeerError, call: Call) -> _Codes:
    call.count_refusal(error.code)
    return dict.fromkeys(partitions, fenced_code(error.code, call.version, FENCED_SINCE))


def _partitions(topics: Iterable[Topic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _results(topics: Iterable[Topic], codes: _Codes) -> tuple[TopicResult, ...]:
    return tuple(
        TopicResult(
            name=topic.name,
            results_by_partition=tuple(
                PartitionResult(
                    partition_index=index,
                    partition_error_code=codes[TopicPartition(topic.name, index)],
                )
                for index in topic.partitions
            ),
        )
        for topic in topics
    )
