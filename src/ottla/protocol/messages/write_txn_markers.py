"""WriteTxnMarkers (27) v1-2. v2 adds the transaction's version (KIP-1228). Gaps: none."""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i8, i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class Topic:
    name: str
    partition_indexes: tuple[i32, ...]


@struct
class Marker:
    producer_id: i64
    producer_epoch: i16
    transaction_result: bool
    topics: tuple[Topic, ...]
    coordinator_epoch: i32
    transaction_version: i8 = since(2, default=0, ignorable=True)


@request(key=27, versions=(1, 2), flexible=1)
class WriteTxnMarkersRequest:
    markers: tuple[Marker, ...]


@struct
class PartitionResult:
    partition_index: i32
    error_code: i16


@struct
class TopicResult:
    name: str
    partitions: tuple[PartitionResult, ...]


@struct
class MarkerResult:
    producer_id: i64
    topics: tuple[TopicResult, ...]


@response(to=WriteTxnMarkersRequest)
class WriteTxnMarkersResponse:
    markers: tuple[MarkerResult, ...]


def refuse(request: WriteTxnMarkersRequest, refusal: Refusal) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple(
            MarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(_refused_topic(topic, refusal) for topic in marker.topics),
            )
            for marker in request.markers
        )
    )


def _refused_topic(topic: Topic, refusal: Refusal) -> TopicResult:
    return TopicResult(
        name=topic.name,
        partitions=tuple(
            PartitionResult(partition_index=index, error_code=refusal.code)
            for index in topic.partition_indexes
        ),
    )
