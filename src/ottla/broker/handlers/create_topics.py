"""CreateTopics (19) v2-7. Each topic is created or refused by itself. Gaps: the timeout is ignored:
the answer is sent when the topics exist; brokers that are down get replicas by assignments only.
"""

from collections import Counter

from ottla.broker.requests import metadata_changes
from ottla.broker.requests.authorization import (
    CLUSTER,
    Unauthorized,
    may,
    topic_resource,
)
from ottla.broker.requests.call import Call
from ottla.broker.requests.request_limits import split_at_topics_max, too_many_topics
from ottla.broker.requests.slices import map_in_slices
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.topic_changes import CreatedTopic, NewTopic
from ottla.metadata.values import AclOperation, AclResource
from ottla.protocol.messages.create_topics import (
    ConfigResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
    Topic,
    TopicResult,
)
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.settings.describe import describe_topic

_DESCRIBE_CONFIGS = AclOperation.DESCRIBE_CONFIGS


async def handle(request: CreateTopicsRequest, call: Call) -> CreateTopicsResponse:
    """One result per topic, in the order of the request. A repeated name is refused once."""
    named = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}
    outcomes: dict[str, CreatedTopic | PeerError] = {}
    new_topics: list[NewTopic] = []
    allowed, beyond = split_at_topics_max(list(topics.items()), call.services.settings)
    outcomes.update((name, too_many_topics(call.services.settings)) for name, _ in beyond)
    may_create_all = call.may(CLUSTER)
    for name, topic in allowed:
        try:
            if not (may_create_all or call.may(topic_resource(name))):
                raise Unauthorized(AclResource.TOPIC)
            new_topics.append(_new_topic(topic, named[name] > 1))
        except PeerError as error:
            outcomes[name] = error
    created = await metadata_changes.create_topics(
        call.services, new_topics, validate_only=request.validate_only
    )
    outcomes.update(zip((topic.name for topic in new_topics), created, strict=True))
    results = await map_in_slices(
        lambda name: _result(name, outcomes[name], call, request.validate_only), topics
    )
    return CreateTopicsResponse(topics=results)


def _result(
    name: str, outcome: CreatedTopic | PeerError, call: Call, validate_only: bool
) -> TopicResult:
    if isinstance(outcome, PeerError):
        call.count_refusal(outcome.code)
        return TopicResult(name=name, error_code=outcome.code, error_message=str(outcome))
    topic_id = ZERO_UUID if validate_only else outcome.topic_id
    if not may(call.services, call.session, _DESCRIBE_CONFIGS, topic_resource(name)):
        return TopicResult(
            name=name,
            topic_id=topic_id,
            error_code=ErrorCode.NONE,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        )
    return _created_result(name, outcome, topic_id)


def _new_topic(topic: Topic, is_repeated: bool) -> NewTopic:
    """PeerError if the request contradicts itself."""
    if is_repeated:
        raise PeerError(ErrorCode.INVALID_REQUEST, "A topic of this name is asked for twice.")
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


def _created_result(name: str, created: CreatedTopic, topic_id: Uuid) -> TopicResult:
    return TopicResult(
        name=name,
        topic_id=topic_id,
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
