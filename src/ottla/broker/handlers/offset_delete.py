"""OffsetDelete (47) v0-0. Offsets of topics that a member is subscribed to, and partitions that do
not exist, are refused by themselves. Gaps: none.
"""

from collections.abc import Hashable, Sequence
from typing import cast

from ottla.broker.requests.authorization import group_resource, topic_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group.decision import Decision
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    PartitionResult,
    TopicResult,
)


async def handle(request: OffsetDeleteRequest, call: Call) -> OffsetDeleteResponse:
    call.require(group_resource(request.group_id))
    if not request.group_id:
        raise PeerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    shard = call.services.coordinators.groups.of(request.group_id)
    asked = [
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    ]
    refused = {name for name, _ in asked if not call.may(topic_resource(name))}
    there = [
        (name, index)
        for name, index in asked
        if name not in refused and _exists(call.services.image, name, index)
    ]

    def decide(ticket: Hashable, _now_ms: int) -> Decision:
        return shard.machine.delete_offsets(request.group_id, there, ticket)

    codes = cast(Sequence[ErrorCode], await shard.ask(decide))
    answers = dict(zip(there, codes, strict=True))
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(
            TopicResult(
                name=topic.name,
                partitions=tuple(
                    PartitionResult(
                        partition_index=each.partition_index,
                        error_code=answers.get(
                            (topic.name, each.partition_index),
                            ErrorCode.TOPIC_AUTHORIZATION_FAILED
                            if topic.name in refused
                            else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        ),
                    )
                    for each in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )


def _exists(image: Image, name: str, index: int) -> bool:
    topic = image.topic(name)
    return topic is not None and image.partition(topic.topic_id, index) is not None
