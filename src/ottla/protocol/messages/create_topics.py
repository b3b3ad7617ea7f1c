"""CreateTopics (19) v2-7. v4 adds the broker's defaults (KIP-464), v5 returns settings (KIP-525),
v7 topic ids (KIP-516). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct, tagged
from ottla.protocol.primitives import ZERO_UUID, Uuid, i8, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Assignment:
    partition_index: i32
    broker_ids: tuple[i32, ...]


@struct
class Config:
    name: str
    value: str | None


@struct
class Topic:
    name: str
    num_partitions: i32
    replication_factor: i16
    assignments: tuple[Assignment, ...]
    configs: tuple[Config, ...]


@request(key=19, versions=(2, 7), flexible=5)
class CreateTopicsRequest:
    topics: tuple[Topic, ...]
    timeout_ms: i32 = 60000
    validate_only: bool = False


@struct
class ConfigResult:
    name: str
    value: str | None
    read_only: bool
    config_source: i8 = -1
    is_sensitive: bool


@struct
class TopicResult:
    name: str
    topic_id: Uuid = since(7, default=ZERO_UUID, ignorable=True)
    error_code: i16
    error_message: str | None = None
    topic_config_error_code: i16 = tagged(0, since=5, default=0, ignorable=True)
    num_partitions: i32 = since(5, default=-1, ignorable=True)
    replication_factor: i16 = since(5, default=-1, ignorable=True)
    configs: tuple[ConfigResult, ...] | None = since(5, default=(), ignorable=True)


@response(to=CreateTopicsRequest)
class CreateTopicsResponse:
    throttle_time_ms: i32 = 0
    topics: tuple[TopicResult, ...]


def refuse(request: CreateTopicsRequest, refusal: Refusal) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=tuple(
            TopicResult(name=topic.name, error_code=refusal.code, error_message=refusal.message)
            for topic in request.topics
        )
    )
