"""CreateTopics (19) v2-7. Each topic is made or refused by itself. Gaps: the timeout is not looked
at: an answer comes when the topics are there.
"""

from collections import Counter

from ottla.broker import decisions
from ottla.broker.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller import CreatedTopic, NewTopic
from ottla.protocol.messages.create_topics import (
    ConfigResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    Topic,
    TopicResult,
)
from ottla.protocol.primitives import ZERO_UUID
from ottla.settings.describe import describe_topic


async def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    """Topics in the order of the request; one that is named twice is refused once."""
    named = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}
    return CreateTopicsResponse(
        topics=tuple(
            [
                await _create(topic, call, named[name] > 1, validate_only=request.validate_only)
                for name, topic in topics.items()
            ]
        )
    )


async def _create(
    topic: Topic, call: Call, is_repeated: bool, *, validate_only: bool
) -> TopicResult:
    try:
        if is_repeated:
            raise PeerError(ErrorCode.INVALID_REQUEST, "A topic of this name is asked for twice.")
        created = await decisions.create_topic(
            call.services, _wish(topic), validate_only=validate_only
        )
    except PeerError as error:
        call.count_refusal(error.code)
        return TopicResult(name=topic.name, error_code=error.code, error_message=str(error))
    return _result(topic.name, created, validate_only)


def _wish(topic: Topic) -> NewTopic:
    assignments = {each.partition_index: each.broker_ids for each in topic.assignments}
    if len(assignments) < len(topic.assignments):
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The replicas of a partition are assigned twice."
        )
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=assignments,
        configs=[(config.name, config.value) for config in topic.configs],
    )


def _result(name: str, created: CreatedTopic, validate_only: bool) -> TopicResult:
    return TopicResult(
        name=name,
        topic_id=ZERO_UUID if validate_only else created.topic_id,
        error_code=ErrorCode.NONE,
        num_partitions=created.partitions,
        replication_factor=created.replication_factor,
        configs=tuple(
            ConfigResult(
                name=row.name,
                value=row.value,
                read_only=row.is_read_only,
                config_source=row.source,
                is_sensitive=row.is_sensitive,
            )
            for row in describe_topic(created.configs)
        ),
    )
