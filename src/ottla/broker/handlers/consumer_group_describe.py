"""ConsumerGroupDescribe (69) v0-1. Groups of the consumer protocol; other groups are not found.
Gaps: none.
"""

from ottla.broker.requests.authorized_operations import ALL_OF_A_GROUP
from ottla.broker.requests.call import Call
from ottla.coordinators.group.consumer.description import describe
from ottla.coordinators.group.consumer.entry import consumer_group
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
    """Each group by itself; one that is named twice is described once."""
    operations = OPERATIONS_NOT_ASKED_FOR
    if request.include_authorized_operations:
        operations = ALL_OF_A_GROUP
    groups = [
        await _describe(group_id, operations, call) for group_id in dict.fromkeys(request.group_ids)
    ]
    return ConsumerGroupDescribeResponse(groups=tuple(groups))


async def _describe(group_id: str, operations: int, call: Call) -> Group:
    if not group_id:
        return _refused(group_id, ErrorCode.INVALID_GROUP_ID)
    try:
        shard = call.services.coordinators.groups.of(group_id)
        topics = ImageTopics(call.services.image)
        return await shard.read(
            lambda _: describe(consumer_group(shard.machine, group_id), topics, operations)
        )
    except PeerError as error:
        call.count_refusal(error.code)
        is_missing = error.code is ErrorCode.GROUP_ID_NOT_FOUND
        return _refused(group_id, error.code, str(error) if is_missing else None)


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
