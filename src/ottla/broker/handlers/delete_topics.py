"""DeleteTopics (20) v1-6. Each topic is deleted or refused by itself. Gaps: the timeout is not
looked at: an answer comes when the topics are gone.
"""

from collections import Counter
from collections.abc import Sequence

from ottla.broker import decisions
from ottla.broker.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.metadata import controller
from ottla.metadata.image import Image
from ottla.metadata.records import Record, Topic
from ottla.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    TopicResult,
)
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.settings.table.replicas import DELETE_TOPIC_ENABLE


async def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    """Topics by name, from v6 on also by id; one that is named twice is refused once."""
    if not call.services.settings[DELETE_TOPIC_ENABLE]:
        raise PeerError(
            ErrorCode.TOPIC_DELETION_DISABLED, f"{DELETE_TOPIC_ENABLE.name} is false here."
        )
    asked = [(topic.name, topic.topic_id) for topic in request.topics] or [
        (name, ZERO_UUID) for name in request.topic_names
    ]
    return DeleteTopicsResponse(
        responses=tuple(
            [
                await _delete(call, name, topic_id, times > 1)
                for (name, topic_id), times in Counter(asked).items()
            ]
        )
    )


async def _delete(call: Call, name: str | None, topic_id: Uuid, is_repeated: bool) -> TopicResult:
    def decide(image: Image) -> tuple[Sequence[Record], Topic]:
        return controller.delete_topic(image, _found(image, name, topic_id).topic_id)

    try:
        if is_repeated:
            raise PeerError(ErrorCode.INVALID_REQUEST, "This topic is named twice.")
        deleted = await decisions.commit(call.services, decide)
    except PeerError as error:
        call.count_refusal(error.code)
        return TopicResult(
            name=name, topic_id=topic_id, error_code=error.code, error_message=str(error)
        )
    return TopicResult(name=deleted.name, topic_id=deleted.topic_id, error_code=ErrorCode.NONE)


def _found(image: Image, name: str | None, topic_id: Uuid) -> Topic:
    """The topic that is meant. PeerError if that cannot be told, or it is not there."""
    if (name is None) == (topic_id == ZERO_UUID):
        raise PeerError(ErrorCode.INVALID_REQUEST, "A topic is named either by name or by id.")
    if name is None:
        topic, code = image.topic_by_id(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic, code = image.topic(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        raise PeerError(code, "There is no such topic.")
    return topic
