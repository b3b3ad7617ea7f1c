"""WriteTxnMarkers (27) v1-2. Coordinators on other brokers send it, and administrators who abort a
hanging transaction. Markers of a coordinator that come too late are refused. Gaps: none.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain

from ottla.broker.inter_broker.shared_connection import client_id_of
from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.coordinators.txn.partition_leaders import (
    TURN_MARKERS_MAX,
    LocalPartitionLeaders,
    MarkerAppends,
)
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
    _require_in_time(call)
    leaders = call.services.coordinators.partition_leaders
    appends: list[list[MarkerAppends]] = []
    begun = 0
    for asked in request.markers:
        appends.append([])
        for names in _turns(_partitions(asked)):
            if begun + len(names) > TURN_MARKERS_MAX:
                await asyncio.sleep(0)
                _require_in_time(call)
                begun = 0
            begun += len(names)
            appends[-1].append(_append(asked, names, leaders))
    # All are appended by now, and wait for their replication together.
    await leaders.settle(list(chain.from_iterable(appends)))
    return WriteTxnMarkersResponse(
        markers=tuple(
            _result(asked, turns, call)
            for asked, turns in zip(request.markers, appends, strict=True)
        )
    )


def _require_in_time(call: Call) -> None:
    brokers = frozenset(map(client_id_of, call.services.image.brokers))
    call.services.coordinators.marker_senders.check(call.session, brokers)


def _partitions(asked: Marker) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index)
        for topic in asked.topics
        for index in topic.partition_indexes
    ]


def _turns(names: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    for begin in range(0, len(names), TURN_MARKERS_MAX):
        yield names[begin : begin + TURN_MARKERS_MAX]


def _append(
    asked: Marker, names: Sequence[TopicPartition], leaders: LocalPartitionLeaders
) -> MarkerAppends:
    if asked.producer_id < 0:
        # Kafka finds that out too late, and answers UNKNOWN_SERVER_ERROR.
        return MarkerAppends(dict.fromkeys(names, ErrorCode.INVALID_PRODUCER_ID_MAPPING), {})
    marker = TransactionMarker(
        asked.producer_id,
        asked.producer_epoch,
        MarkerKind.COMMIT if asked.transaction_result else MarkerKind.ABORT,
        asked.coordinator_epoch,
        asked.transaction_version,
    )
    return leaders.append(marker, names)


def _result(asked: Marker, turns: Sequence[MarkerAppends], call: Call) -> MarkerResult:
    codes = {name: code for turn in turns for name, code in turn.codes.items()}
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
