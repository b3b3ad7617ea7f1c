"""DeleteTopics (20) v1-6. Each topic is deleted or refused by itself. Gaps: the timeout is ignored:
the answer is sent when the topics are deleted.
"""

from collections import Counter
from typing import NamedTuple

from ottla.broker.requests import metadata_changes
from ottla.broker.requests.authorization import topic_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.request_limits import split_at_topics_max, too_many_topics
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller import topic_changes
from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.image import Image
from ottla.metadata.records import Record, Topic
from ottla.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    TopicResult,
)
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.settings.table.replicas import DELETE_TOPIC_ENABLE


class TopicReference(NamedTuple):
    """A topic as a request names it: by name or by id."""

    name: str | None
    topic_id: Uuid


async def handle(request: DeleteTopicsRequest, call: Call) -> DeleteTopicsResponse:
    """Deletes topics by name and, since v6, by id. A topic that is named twice is refused once."""
    if not call.services.settings[DELETE_TOPIC_ENABLE]:
        raise PeerError(
            ErrorCode.TOPIC_DELETION_DISABLED, f"{DELETE_TOPIC_ENABLE.name} is false here."
        )
    asked = [TopicReference(topic.name, topic.topic_id) for topic in request.topics] or [
        TopicReference(name, ZERO_UUID) for name in request.topic_names
    ]
    named = Counter(asked)
    by_id = {each.topic_id for each in asked if each.name is None}

    def decide(pending: PendingTopics, each: TopicReference) -> tuple[list[Record], Topic]:
        if named[each] > 1:
            raise PeerError(ErrorCode.INVALID_REQUEST, "This topic is named twice.")
        if each.name is not None:
            # First, so that the error does not reveal whether the topic exists.
            call.require(topic_resource(each.name))
        topic = _find_topic(pending.image, *each)
        call.require(topic_resource(topic.name))
        if each.name is not None and topic.topic_id in by_id:
            raise PeerError(ErrorCode.INVALID_REQUEST, "This topic is named by its id as well.")
        return topic_changes.delete_topic(pending, topic.topic_id)

    allowed, beyond = split_at_topics_max(list(named), call.services.settings)
    outcomes = await metadata_changes.commit_each(call.services, allowed, decide)
    outcomes += [too_many_topics(call.services.settings)] * len(beyond)
    return DeleteTopicsResponse(
        responses=tuple(
            _result(each, outcome, call) for each, outcome in zip(named, outcomes, strict=True)
        )
    )


def _result(asked: TopicReference, outcome: Topic | PeerError, call: Call) -> TopicResult:
    if isinstance(outcome, PeerError):
        call.count_refusal(outcome.code)
        return TopicResult(
            name=asked.name,
            topic_id=asked.topic_id,
            error_code=outcome.code,
            error_message=str(outcome),
        )
    return TopicResult(name=outcome.name, topic_id=outcome.topic_id, error_code=ErrorCode.NONE)


def _find_topic(image: Image, name: str | None, topic_id: Uuid) -> Topic:
    """The topic of a reference. PeerError if the reference is ambiguous or the topic is missing."""
    if (name is None) == (topic_id == ZERO_UUID):
        raise PeerError(ErrorCode.INVALID_REQUEST, "A topic is named either by name or by id.")
    if name is None:
        topic, code = image.topic_by_id(topic_id), ErrorCode.UNKNOWN_TOPIC_ID
    else:
        topic, code = image.topic(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if topic is None:
        raise PeerError(code, "There is no such topic.")
    return topic
