"""CreatePartitions (37) v0-3. Each topic grows or is refused by itself. Gaps: the timeout is not
looked at: an answer comes when the partitions are there.
"""

from collections import Counter
from collections.abc import Sequence

from ottla.broker import decisions
from ottla.broker.call import Call
from ottla.broker.services import Services
from ottla.errors import ErrorCode, PeerError
from ottla.metadata import controller
from ottla.metadata.image import Image
from ottla.metadata.records import Record
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    Topic,
    TopicResult,
)


async def handle(request: CreatePartitionsRequest, call: Call) -> CreatePartitionsResponse:
    """More partitions for each topic; one that is named twice is refused once."""
    named = Counter(topic.name for topic in request.topics)
    topics = {topic.name: topic for topic in request.topics}
    return CreatePartitionsResponse(
        results=tuple(
            [
                await _grow(call, topic, named[name] > 1, validate_only=request.validate_only)
                for name, topic in topics.items()
            ]
        )
    )


async def _grow(call: Call, topic: Topic, is_repeated: bool, *, validate_only: bool) -> TopicResult:
    try:
        if is_repeated:
            raise PeerError(ErrorCode.INVALID_REQUEST, "This topic is named twice.")
        await _decide(call.services, topic, validate_only)
    except PeerError as error:
        call.count_refusal(error.code)
        # Kafka says nothing more about a topic that is not there.
        is_missing = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return TopicResult(
            name=topic.name,
            error_code=error.code,
            error_message=None if is_missing else str(error),
        )
    return TopicResult(name=topic.name, error_code=ErrorCode.NONE)


async def _decide(services: Services, topic: Topic, validate_only: bool) -> None:
    start = decisions.placement_start(services.entropy)
    assignments = None
    if topic.assignments is not None:
        assignments = [assignment.broker_ids for assignment in topic.assignments]

    def decide(image: Image) -> tuple[Sequence[Record], None]:
        return controller.create_partitions(
            image, topic.name, topic.count, assignments, services.settings, start
        )

    if validate_only:
        decide(services.image)
    else:
        await decisions.commit(services, decide)
