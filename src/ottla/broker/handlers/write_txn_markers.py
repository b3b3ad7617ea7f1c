"""WriteTxnMarkers (27) v1-2. Coordinators on other brokers send it, and administrators who abort a
hanging transaction. Gaps: none.
"""

import asyncio

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.coordinators.txn.partition_leaders import TURN_MARKERS_MAX, Codes, write_in_turns
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
    results = []
    written = 0
    for marker in request.markers:
        if written >= TURN_MARKERS_MAX:
            await asyncio.sleep(0)
            written = 0
        results.append(await _write(marker, call))
        written += sum(len(topic.partition_indexes) for topic in marker.topics)
    return WriteTxnMarkersResponse(markers=tuple(results))


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
    if asked.producer_id < 0:
        # Kafka finds that out too late, and answers UNKNOWN_SERVER_ERROR.
        codes: Codes = dict.fromkeys(names, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    else:
        leaders = call.services.coordinators.partition_leaders
        codes = await write_in_turns(leaders, marker, names)
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
