"""CreatePartitions (37) v0-3. v3 adds the quota error (KIP-599). Gaps: none."""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Assignment:
    broker_ids: tuple[i32, ...]


@struct
class Topic:
    name: str
    count: i32
    assignments: tuple[Assignment, ...] | None


@request(key=37, versions=(0, 3), flexible=2)
class CreatePartitionsRequest:
    topics: tuple[Topic, ...]
    timeout_ms: i32
    validate_only: bool


@struct
class TopicResult:
    name: str
    error_code: i16
    error_message: str | None = None


@response(to=CreatePartitionsRequest)
class CreatePartitionsResponse:
    throttle_time_ms: i32 = 0
    results: tuple[TopicResult, ...]


def refuse(request: CreatePartitionsRequest, refusal: Refusal) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=tuple(
            TopicResult(name=topic.name, error_code=refusal.code, error_message=refusal.message)
            for topic in request.topics
        )
    )
