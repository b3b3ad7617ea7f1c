"""ConsumerGroupDescribe (69) v0-1. Groups of the consumer protocol; other groups are not found.
Gaps: none.
"""

from ottla.broker.requests.authorization import Unauthorized, group_resource, topic_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group.consumer.description import describe
from ottla.coordinators.group.consumer.routing import consumer_group
from ottla.coordinators.group.consumer.topics import ImageTopics
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Group,
)
from ottla.protocol.primitives import OPERATIONS_NOT_ASKED_FOR


async def handle(
    request: ConsumerGroupDescribeRequest, call: Call
) -> ConsumerGroupDescribeResponse:
    """Describes or refuses each group by itself. A group that is named twice is described once."""
    groups = [
        await _describe(group_id, request.include_authorized_operations, call)
        for group_id in dict.fromkeys(request.group_ids)
    ]
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


async def _describe(group_id: str, include_operations: bool, call: Call) -> Group:
    if not group_id:
        return _refused(group_id, ErrorCode.INVALID_GROUP_ID)
    try:
        call.require(group_resource(group_id))
        operations = OPERATIONS_NOT_ASKED_FOR
        if include_operations:
            operations = call.authorized_operations(group_resource(group_id))
        shard = call.services.coordinators.groups.of(group_id)
        topics = ImageTopics(call.services.image)
        described = await shard.read(
            lambda _: describe(consumer_group(shard.machine, group_id), topics, operations)
        )
        for name in _assigned_topics(described):
            call.require(topic_resource(name))
    except PeerError as error:
        call.count_refusal(error.code)
        # As in Kafka, other errors have no message.
        has_message = error.code is ErrorCode.GROUP_ID_NOT_FOUND or isinstance(error, Unauthorized)
        return _refused(group_id, error.code, str(error) if has_message else None)
    return described


def _assigned_topics(described: Group) -> set[str]:
    """The assigned topics. A group is refused if the client may not describe one of them."""
    return {
        assigned.topic_name
        for member in described.members
        for assignment in (member.assignment, member.target_assignment)
        for assigned in assignment.topic_partitions
    }


def _refused(group_id: str, code: ErrorCode, message: str | None = None) -> Group:
    return Group(
        error_code=code,
        error_message=message,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )
