"""CreatePartitions (37) v0-3. Each topic is extended or refused by itself. Gaps: the timeout is
ignored: the answer is sent when the partitions exist; brokers that are down get replicas by
assignments only.
"""

from collections import Counter

from ottla.broker.requests import metadata_changes
from ottla.broker.requests.authorization import topic_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.request_limits import split_at_topics_max, too_many_topics
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller import topic_changes
from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.records import Record
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    Topic,
    TopicResult,
)


async def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    """Extends or refuses each topic by itself. A topic that is named twice is refused once."""
    services = call.services
    named = Counter(topic.name for topic in request.topics)
    topics = list({topic.name: topic for topic in request.topics}.values())

    def decide(pending: PendingTopics, topic: Topic) -> tuple[list[Record], None]:
        if named[topic.name] > 1:
            raise PeerError(ErrorCode.INVALID_REQUEST, "This topic is named twice.")
        call.require(topic_resource(topic.name))
        assignments = None
        if topic.assignments is not None:
            assignments = [assignment.broker_ids for assignment in topic.assignments]
        start = metadata_changes.placement_start(services.entropy)
        return topic_changes.create_partitions(
            pending, topic.name, topic.count, assignments, services.settings, start
        )

    allowed, beyond = split_at_topics_max(topics, services.settings)
    outcomes = await metadata_changes.commit_each(
        services, allowed, decide, validate_only=request.validate_only
    )
    outcomes += [too_many_topics(services.settings)] * len(beyond)
    return CreatePartitionsResponse(
        results=tuple(
            _result(topic.name, outcome, call)
            for topic, outcome in zip(topics, outcomes, strict=True)
        )
    )


def _result(name: str, outcome: PeerError | None, call: Call) -> TopicResult:
    if outcome is None:
        return TopicResult(name=name, error_code=ErrorCode.NONE)
    call.count_refusal(outcome.code)
    # Kafka sends no message for a missing topic.
    is_missing = outcome.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return TopicResult(
        name=name,
        error_code=outcome.code,
        error_message=None if is_missing else str(outcome),
    )
