"""DescribeTransactions (65) v0-0. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i16, i32, i64
from ottla.protocol.refusal import Refusal


@request(key=65, versions=(0, 0), flexible=0)
class DescribeTransactionsRequest:
    transactional_ids: tuple[str, ...]


@struct
class Topic:
    topic: str
    partitions: tuple[i32, ...]


@struct
class Transaction:
    error_code: i16
    transactional_id: str
    transaction_state: str
    transaction_timeout_ms: i32
    transaction_start_time_ms: i64
    producer_id: i64
    producer_epoch: i16
    topics: tuple[Topic, ...]


@response(to=DescribeTransactionsRequest)
class DescribeTransactionsResponse:
    throttle_time_ms: i32 = 0
    transaction_states: tuple[Transaction, ...]


def refuse(request: DescribeTransactionsRequest, refusal: Refusal) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=tuple(
            Transaction(
                error_code=refusal.code,
                transactional_id=transactional_id,
                transaction_state="",
                transaction_timeout_ms=0,
                transaction_start_time_ms=0,
                producer_id=0,
                producer_epoch=0,
                topics=(),
            )
            for transactional_id in request.transactional_ids
        )
    )
