"""DeleteTopics (20) v1-6. v5 adds error messages (KIP-599), v6 topic ids (KIP-516). Gaps: none."""

from ottla.protocol.codec import nullable_since, request, response, since, struct, until
from ottla.protocol.primitives import ZERO_UUID, Uuid, i16, i32
from ottla.protocol.refusal import Refusal


@struct
class Topic:
    name: str | None = None
    topic_id: Uuid


@request(key=20, versions=(1, 6), flexible=4)
class DeleteTopicsRequest:
    topics: tuple[Topic, ...] = since(6, default=())
    topic_names: tuple[str, ...] = until(5, default=(), ignorable=True)
    timeout_ms: i32


@struct
class TopicResult:
    name: str | None = nullable_since(6)
    topic_id: Uuid = since(6, default=ZERO_UUID, ignorable=True)
    error_code: i16
    error_message: str | None = since(5, default=None, ignorable=True)


@response(to=DeleteTopicsRequest)
class DeleteTopicsResponse:
    throttle_time_ms: i32 = 0
    responses: tuple[TopicResult, ...]


def refuse(request: DeleteTopicsRequest, refusal: Refusal) -> DeleteTopicsResponse:
    topics = request.topics or tuple(
        Topic(name=name, topic_id=ZERO_UUID) for name in request.topic_names
    )
    return DeleteTopicsResponse(
        responses=tuple(
            TopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_code=refusal.code,
                error_message=refusal.message,
            )
            for topic in topics
        )
    )
