"""AlterReplicaLogDirs (34) v1-2. v2 is flexible. Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Topic:
    name: str
    partitions: tuple[i32, ...]


@struct
class LogDir:
    path: str
    topics: tuple[Topic, ...]


@request(key=34, versions=(1, 2), flexible=2)
class AlterReplicaLogDirsRequest:
    dirs: tuple[LogDir, ...]


@struct
class PartitionResult:
    partition_index: i32
    error_code: i16


@struct
class TopicResult:
    topic_name: str
    partitions: tuple[PartitionResult, ...]


@response(to=AlterReplicaLogDirsRequest)
class AlterReplicaLogDirsResponse:
    throttle_time_ms: i32 = 0
    results: tuple[TopicResult, ...]


def refuse(request: AlterReplicaLogDirsRequest, refusal: Refusal) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=tuple(
            TopicResult(
                topic_name=topic.name,
                partitions=tuple(
                    PartitionResult(partition_index=index, error_code=refusal.code)
                    for index in topic.partitions
                ),
            )
            for log_dir in request.dirs
            for topic in log_dir.topics
        )
    )
