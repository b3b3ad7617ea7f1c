"""AddPartitionsToTxn (24) v0-5. v4 is for brokers and takes several ids (KIP-890). Gaps: none."""

from ottla.protocol.codec import request, response, since, struct, until
from ottla.protocol.primitives import i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class Topic:
    name: str
    partitions: tuple[i32, ...]


@struct
class Transaction:
    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    verify_only: bool = False
    topics: tuple[Topic, ...]


@request(key=24, versions=(0, 5), flexible=3)
class AddPartitionsToTxnRequest:
    transactions: tuple[Transaction, ...] = since(4, default=())
    v3_and_below_transactional_id: str = until(3, default="")
    v3_and_below_producer_id: i64 = until(3, default=0)
    v3_and_below_producer_epoch: i16 = until(3, default=0)
    v3_and_below_topics: tuple[Topic, ...] = until(3, default=())


@struct
class PartitionResult:
    partition_index: i32
    partition_error_code: i16


@struct
class TopicResult:
    name: str
    results_by_partition: tuple[PartitionResult, ...]


@struct
class TransactionResult:
    transactional_id: str
    topic_results: tuple[TopicResult, ...]


@response(to=AddPartitionsToTxnRequest)
class AddPartitionsToTxnResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = since(4, default=0, ignorable=True)
    results_by_transaction: tuple[TransactionResult, ...] = since(4, default=())
    results_by_topic_v3_and_below: tuple[TopicResult, ...] = until(3, default=())


def refuse(request: AddPartitionsToTxnRequest, refusal: Refusal) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        error_code=refusal.code,
        results_by_topic_v3_and_below=tuple(
            TopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    PartitionResult(partition_index=index, partition_error_code=refusal.code)
                    for index in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        ),
    )
