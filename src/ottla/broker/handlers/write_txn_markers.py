"""WriteTxnMarkers (27) v1-2. Coordinators on other brokers send it, and administrators who abort a
hanging transaction. Gaps: none.
"""

from collections.abc import Mapping

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode
from ottla.protocol.batch import MarkerKind
from ottla.protocol.messages.write_txn_markers import (
    Marker,
    MarkerResult,
    PartitionResult,
    TopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla.protocol.topic_partition import TopicPartition
from ottla.replication.append.transaction_marker import TransactionMarker


async def handle(request: WriteTxnMarkersRequest, call: Call) -> WriteTxnMarkersResponse:
    call.require(CLUSTER)
    return WriteTxnMarkersResponse(
        markers=tuple([await _write(marker, call) for marker in request.markers])
    )


async def _write(asked: Marker, call: Call) -> MarkerResult:
    marker = TransactionMarker(
        asked.producer_id,
        asked.producer_epoch,
        MarkerKind.COMMIT if asked.transaction_result else MarkerKind.ABORT,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
    names = [
        TopicPartition(topic.name, index)
        for topic in asked.topics
        for index in topic.partition_indexes
    ]
    codes = call.services.coordinators.partition_leaders.write(marker, names)
    if not isinstance(codes, Mapping):
        codes = await codes
    for code in codes.values():
        if code is not ErrorCode.NONE:
            call.count_refusal(code)
    return MarkerResult(
        producer_id=asked.producer_id,
        topics=tuple(
            TopicResult(
                name=topic.name,
                partitions=tuple(
                    PartitionResult(
                        partition_index=index, error_code=codes[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in asked.topics
        ),
    )
