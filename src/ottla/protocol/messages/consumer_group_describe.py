"""ConsumerGroupDescribe (69) v0-1. v1 adds the member type (KIP-1099). Gaps: none."""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import OPERATIONS_NOT_ASKED_FOR, Uuid, i8, i16, i32
from ottla.protocol.refusal import Refusal


@request(key=69, versions=(0, 1), flexible=0)
class ConsumerGroupDescribeRequest:
    group_ids: tuple[str, ...]
    include_authorized_operations: bool


@struct
class TopicPartitions:
    topic_id: Uuid
    topic_name: str
    partitions: tuple[i32, ...]


@struct
class Assignment:
    topic_partitions: tuple[TopicPartitions, ...]


@struct
class Member:
    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    member_epoch: i32
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None = None
    assignment: Assignment
    target_assignment: Assignment
    member_type: i8 = since(1, default=-1, ignorable=True)


@struct
class Group:
    error_code: i16
    error_message: str | None = None
    group_id: str
    group_state: str
    group_epoch: i32
    assignment_epoch: i32
    assignor_name: str
    members: tuple[Member, ...]
    authorized_operations: i32 = OPERATIONS_NOT_ASKED_FOR


@response(to=ConsumerGroupDescribeRequest)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: i32 = 0
    groups: tuple[Group, ...]


def refuse(
    request: ConsumerGroupDescribeRequest, refusal: Refusal
) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=tuple(
            Group(
                error_code=refusal.code,
                error_message=refusal.message,
                group_id=group_id,
                group_state="",
                group_epoch=0,
                assignment_epoch=0,
                assignor_name="",
                members=(),
            )
            for group_id in request.group_ids
        )
    )
