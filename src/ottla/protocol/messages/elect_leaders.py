"""ElectLeaders (43) v0-2. v1 adds unclean elections (KIP-460). Gaps: none."""

from ottla.errors import ErrorCode
from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i8, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class TopicPartitions:
    topic: str
    partitions: tuple[i32, ...]


@request(key=43, versions=(0, 2), flexible=2)
class ElectLeadersRequest:
    election_type: i8 = since(1, default=0)
    topic_partitions: tuple[TopicPartitions, ...] | None
    timeout_ms: i32 = 60000


@struct
class PartitionResult:
    partition_id: i32
    error_code: i16
    error_message: str | None = None


@struct
class TopicResult:
    topic: str
    partition_result: tuple[PartitionResult, ...]


@response(to=ElectLeadersRequest)
class ElectLeadersResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = since(1, default=0)
    replica_election_results: tuple[TopicResult, ...]


def refuse(request: ElectLeadersRequest, refusal: Refusal) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=refusal.code if refusal.version >= 1 else ErrorCode.NONE,
        replica_election_results=tuple(
            TopicResult(
                topic=topic.topic,
                partition_result=tuple(
                    PartitionResult(
                        partition_id=partition_id,
                        error_code=refusal.code,
                        error_message=refusal.message,
                    )
                    for partition_id in topic.partitions
                ),
            )
            for topic in request.topic_partitions or ()
        ),
    )
