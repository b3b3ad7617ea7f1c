"""Administration of groups: list, describe, delete."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ottla.address import Address
from ottla.client.errors import Refused, UnsupportedByBroker, raise_if_refused
from ottla.client.routing.coordinators import CoordinatorKey
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, decode_partitions
from ottla.protocol.messages import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    list_groups,
)
from ottla.protocol.primitives import DecodeError
from ottla.protocol.topic_partition import TopicPartition

G = TypeVar("G")

CLASSIC = "classic"
CONSUMER = "consumer"
# The state of a group that does not exist in DescribeGroups v0-5.
_DEAD = "Dead"


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it. Old brokers give "" for state and type."""

    group_id: str
    protocol_type: str
    state: str
    type: str


class Member(NamedTuple):
    """A member and its assigned partitions; None if the assignment cannot be decoded."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class Group:
    """A group of either protocol."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: Address
    members: tuple[Member, ...]


async def list_all_groups(router: Router) -> list[ListedGroup]:
    """The groups of all brokers, in the order of names. Refused if one broker refuses."""
    topology = await router.retrying(lambda: router.refresh(()))
    listed = [await _groups_at(router, node_id) for node_id in topology.brokers]
    return sorted({group for groups in listed for group in groups})


async def describe_group(router: Router, group_id: str) -> Group:
    """Refused with GROUP_ID_NOT_FOUND if there is no such group."""
    try:
        return await _described_consumer(router, group_id)
    except UnsupportedByBroker:
        pass
    except Refused as refused:
        # It may be a group of the classic protocol.
        if refused.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
    return await _described_classic(router, group_id)


async def delete_group(router: Router, group_id: str) -> None:
    """Deletes a group without members, and its offsets. Refused."""
    key = CoordinatorKey(group_id)
    request = delete_groups.DeleteGroupsRequest(groups_names=(group_id,))
    answer: delete_groups.DeleteGroupsResponse = await router.ask_coordinator(
        key,
        request,
        lambda answer: [each.error_code for each in answer.results],
    )
    for each in answer.results:
        raise_if_refused(each.error_code, f"group {each.group_id}")


async def _groups_at(router: Router, node_id: int) -> list[ListedGroup]:
    async def ask() -> list[ListedGroup]:
        connection = await router.broker(node_id)
        answer: list_groups.ListGroupsResponse = await connection.ask(
            list_groups.ListGroupsRequest()
        )
        raise_if_refused(answer.error_code, f"groups of broker {node_id}")
        return [
            ListedGroup(each.group_id, each.protocol_type, each.group_state, each.group_type)
            for each in answer.groups
        ]

    return await router.retrying(ask)


async def _described_consumer(router: Router, group_id: str) -> Group:
    key = CoordinatorKey(group_id)
    request = consumer_group_describe.ConsumerGroupDescribeRequest(
        group_ids=(group_id,), include_authorized_operations=False
    )
    answer: consumer_group_describe.ConsumerGroupDescribeResponse = await router.ask_coordinator(
        key,
        request,
        lambda answer: [each.error_code for each in answer.groups],
    )
    group = _only(answer.groups, group_id)
    raise_if_refused(group.error_code, f"group {group_id}", group.error_message)
    return Group(
        group_id,
        CONSUMER,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        (await router.find_coordinator(key)).address,
        tuple(_consumer_member(member) for member in group.members),
    )


def _consumer_member(member: consumer_group_describe.Member) -> Member:
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        tuple(
            TopicPartition(topic.topic_name, partition)
            for topic in member.assignment.topic_partitions
            for partition in topic.partitions
        ),
    )


async def _described_classic(router: Router, group_id: str) -> Group:
    key = CoordinatorKey(group_id)
    request = describe_groups.DescribeGroupsRequest(groups=(group_id,))
    answer: describe_groups.DescribeGroupsResponse = await router.ask_coordinator(
        key,
        request,
        lambda answer: [each.error_code for each in answer.groups],
    )
    group = _only(answer.groups, group_id)
    raise_if_refused(group.error_code, f"group {group_id}", group.error_message)
    if group.group_state == _DEAD:
        raise Refused(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id}")
    return Group(
        group_id,
        CLASSIC,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        (await router.find_coordinator(key)).address,
        tuple(_classic_member(member, group.protocol_type) for member in group.members),
    )


def _classic_member(member: describe_groups.Member, protocol_type: str) -> Member:
    """A member. The assignment of another protocol type cannot be decoded."""
    partitions: tuple[TopicPartition, ...] | None = None
    if protocol_type == PROTOCOL_TYPE:
        try:
            partitions = tuple(decode_partitions(member.member_assignment))
        except DecodeError:
            partitions = None
    return Member(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        partitions,
    )


def _only(groups: Sequence[G], group_id: str) -> G:
    """The one requested group. Refused."""
    if len(groups) != 1:
        raise Refused(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"group {group_id}", f"{len(groups)} groups answered"
        )
    return groups[0]
