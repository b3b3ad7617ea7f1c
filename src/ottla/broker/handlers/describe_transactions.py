"""DescribeTransactions (65) v0-0. Each transactional id is described, or refused by itself.
Gaps: none.
"""

from typing import TYPE_CHECKING

from ottla.broker.requests.authorization import topic_resource, transactional_id_resource
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    Topic,
    Transaction,
)
from ottla.protocol.topic_partition import by_topic

if TYPE_CHECKING:
    from ottla.coordinators.txn.transaction import Transaction as State


async def handle(request: DescribeTransactionsRequest, call: Call) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=tuple(
            [
                await _describe(transactional_id, call)
                for transactional_id in dict.fromkeys(request.transactional_ids)
            ]
        )
    )


async def _describe(transactional_id: str, call: Call) -> Transaction:
    try:
        call.require(transactional_id_resource(transactional_id))
        if not transactional_id:
            raise PeerError(ErrorCode.INVALID_REQUEST, "an empty transactional id")
        shard = call.services.coordinators.transactions.of(transactional_id)
        state = await shard.read(lambda _: shard.machine.transactions.get(transactional_id))
        if state is None:
            raise PeerError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "no such transactional id")
    except PeerError as error:
        call.count_refusal(error.code)
        return _refused(transactional_id, error.code)
    return _described(state, call)


def _described(state: "State", call: Call) -> Transaction:
    return Transaction(
        error_code=ErrorCode.NONE,
        transactional_id=state.transactional_id,
        transaction_state=state.state.kafka_name,
        transaction_timeout_ms=state.timeout_ms,
        transaction_start_time_ms=state.start_ms,
        producer_id=state.producer_id,
        producer_epoch=state.producer_epoch,
        topics=tuple(
            Topic(topic=topic, partitions=tuple(each.partition for each in partitions))
            for topic, partitions in by_topic(sorted(state.partitions)).items()
            if call.may(topic_resource(topic))
        ),
    )


def _refused(transactional_id: str, code: ErrorCode) -> Transaction:
    return Transaction(
        error_code=code,
        transactional_id=transactional_id,
        transaction_state="",
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
        topics=(),
    )
