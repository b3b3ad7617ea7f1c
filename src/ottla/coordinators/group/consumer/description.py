"""The description of a group for ConsumerGroupDescribe."""

from collections.abc import Iterator

from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.consumer.targets import preferred_assignor
from ottla.coordinators.group.consumer.topics import Topics
from ottla.coordinators.group.records import Partitions
from ottla.errors import ErrorCode
from ottla.protocol.messages.consumer_group_describe import (
    Assignment,
    Group,
    Member,
    TopicPartitions,
)
from ottla.protocol.primitives import OPERATIONS_NOT_ASKED_FOR

_CLASSIC_MEMBER = 0
_CONSUMER_MEMBER = 1


def describe(
    group: ConsumerGroup, topics: Topics, authorized_operations: int = OPERATIONS_NOT_ASKED_FOR
) -> Group:
    """The group as it is saved. Deleted topics are left out: they have no name."""
    saved = group.saved
    return Group(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=saved.epoch,
        assignment_epoch=saved.target_epoch,
        assignor_name=preferred_assignor(saved.members, group.rules.assignors),
        members=tuple(_members(group, topics)),
        authorized_operations=authorized_operations,
    )


def _members(group: ConsumerGroup, topics: Topics) -> Iterator[Member]:
    for member_id, member in sorted(group.saved.members.items()):
        current = group.saved.current(member_id)
        yield Member(
            member_id=member_id,
            instance_id=member.instance_id,
            rack_id=member.rack,
            member_epoch=current.epoch,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=member.topics,
            subscribed_topic_regex=member.regex or "",
            assignment=_assignment(current.assigned, topics),
            target_assignment=_assignment(group.saved.target(member_id).partitions, topics),
            member_type=_CLASSIC_MEMBER if member.is_classic else _CONSUMER_MEMBER,
        )


def _assignment(partitions: Partitions, topics: Topics) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=indexes)
            for topic_id, indexes in partitions.items()
            if (name := topics.name(topic_id)) is not None
        )
    )
