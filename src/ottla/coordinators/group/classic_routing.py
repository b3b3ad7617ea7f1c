"""Routes requests of the classic protocol to their group, which may be a consumer group."""

from collections.abc import Callable, Hashable, Sequence

from ottla.coordinators.group.classic import lookup
from ottla.coordinators.group.classic.join import Joiner
from ottla.coordinators.group.classic.leave import unknown_members_response
from ottla.coordinators.group.consumer.group import ConsumerGroup
from ottla.coordinators.group.consumer.member_update import UpdateContext
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.topics import Topics
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.machine import GroupMachine
from ottla.coordinators.runtime.decision import Answered
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.leave_group import Member
from ottla.protocol.messages.sync_group import SyncGroupRequest


def join(
    machine: GroupMachine,
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    now_ms: int,
    consumers: Callable[[int], tuple[ConsumerRules, UpdateContext]],
) -> Decision:
    """`consumers` returns the rules and the context for a consumer group."""
    group = _consumer_group(machine, request.group_id)
    if group is None:
        classic = lookup.require(machine, request.group_id)
        return classic.join(request, joiner, ticket, now_ms)
    group.rules, context = consumers(now_ms)
    return group.join(request, joiner, ticket, context)


def sync(
    machine: GroupMachine, request: SyncGroupRequest, ticket: Hashable, now_ms: int, topics: Topics
) -> Decision:
    group = _consumer_group(machine, request.group_id)
    if group is None:
        return lookup.require(machine, request.group_id).sync(request, ticket, now_ms)
    return group.sync(request, ticket, now_ms, topics)


def heartbeat(
    machine: GroupMachine, request: HeartbeatRequest, ticket: Hashable, now_ms: int
) -> Decision:
    group = _consumer_group(machine, request.group_id)
    if group is None:
        return lookup.require(machine, request.group_id).heartbeat(request, ticket, now_ms)
    return group.classic_heartbeat(request, ticket, now_ms)


def leave(
    machine: GroupMachine, group_id: str, leaving: Sequence[Member], ticket: Hashable, now_ms: int
) -> Decision:
    group = _consumer_group(machine, group_id) or lookup.find(machine, group_id)
    if group is None:
        return Decision(answers=(Answered(ticket, unknown_members_response(leaving)),))
    return group.leave(leaving, ticket, now_ms)


def _consumer_group(machine: GroupMachine, group_id: str) -> ConsumerGroup | None:
    """The group, if it is a consumer group with members."""
    group = machine.groups.get(group_id)
    return group if isinstance(group, ConsumerGroup) and not group.is_empty else None
