"""Decisions on the requests of classic members of a consumer group. Pure.

The group has no leader, and no member waits for others. The broker assigns, so joins and syncs are
answered at once. A heartbeat tells a member to join again if it has partitions to revoke or can get
more; its join then reports the partitions that it owns.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from ottla.coordinators.group.classic.join import ID_REQUIRED_SINCE, Joiner
from ottla.coordinators.group.classic.member import rebalance_timeout_ms
from ottla.coordinators.group.consumer.heartbeat import check_room
from ottla.coordinators.group.consumer.heartbeat_request import SUBSCRIPTION_CHARACTERS_MAX
from ottla.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    check_instance,
    new_member,
    successor,
    unknown_member,
)
from ottla.coordinators.group.consumer.member_update import (
    MemberUpdate,
    Outcome,
    Sender,
    SubscriptionChecks,
    UpdateContext,
    UpdateDecider,
    is_assignment_due,
)
from ottla.coordinators.group.consumer.reconciliation import MemberState
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.saved_group import SavedGroup
from ottla.coordinators.group.consumer.topics import Topics
from ottla.coordinators.group.embedded_protocol import (
    MalformedProtocol,
    by_topic_id,
    read_subscription,
    write_assignment,
)
from ottla.coordinators.group.records import ClassicMetadata, ConsumerMemberSaved
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, Subscription
from ottla.protocol.messages import leave_group
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.settings.table.consumer_groups import MigrationPolicy


def check_join(state: SavedGroup, rules: ConsumerRules, request: JoinGroupRequest) -> None:
    """GROUP_MAX_SIZE_REACHED or INCONSISTENT_GROUP_PROTOCOL if this member cannot join."""
    if not _is_known(state, request):
        check_room(state, rules)
    if rules.migration is MigrationPolicy.DISABLED:
        raise _inconsistent(
            f"Cannot join the consumer group {state.group_id} with the classic protocol because"
            " the group migration is disabled."
        )
    offered = {protocol.name for protocol in request.protocols}
    if request.protocol_type != PROTOCOL_TYPE or not _is_common(offered, state):
        raise _inconsistent(f"Member {request.member_id}'s protocols are not supported.")


def _is_known(state: SavedGroup, request: JoinGroupRequest) -> bool:
    if request.group_instance_id is not None:
        return state.static_member(request.group_instance_id) is not None
    return request.member_id in state.members


def _is_common(names: set[str], state: SavedGroup) -> bool:
    """Whether all classic members, if there are any, support one of these protocols."""
    common = names
    for member in state.members.values():
        if member.classic is not None and member.is_classic:
            common = common & {name for name, _ in member.classic.protocols}
    return bool(common)


def needs_id(request: JoinGroupRequest, version: int) -> bool:
    """Whether a new member has to join again with the id that it is given."""
    is_unknown = not request.member_id and request.group_instance_id is None
    return is_unknown and version >= ID_REQUIRED_SINCE


def decide_join(
    state: SavedGroup,
    checks: SubscriptionChecks,
    rules: ConsumerRules,
    request: JoinGroupRequest,
    joiner: Joiner,
    context: UpdateContext,
) -> Outcome:
    """The outcome of a member's join or rejoin. PeerError if it is refused."""
    subscription = _subscription(request)
    sender = _find_joiner(state, request, request.member_id or joiner.consumer_member_id)
    update = MemberUpdate(
        _updated_by_join(sender.before.saved, request, joiner, subscription),
        by_topic_id(subscription.owned_partitions, context.topics),
        context,
    )
    return UpdateDecider(state, checks, rules, sender, update).outcome()


def _subscription(request: JoinGroupRequest) -> Subscription:
    """The subscription of the first protocol: all protocols of a member have the same one."""
    try:
        found = read_subscription(request.protocols[0].metadata)
    except MalformedProtocol as error:
        raise _inconsistent(f"Member {request.member_id} is no consumer: {error}") from None
    if sum(map(len, found.topics)) > SUBSCRIPTION_CHARACTERS_MAX:
        raise PeerError(ErrorCode.INVALID_REQUEST, "The names of topics are too long.")
    return found


def _find_joiner(state: SavedGroup, request: JoinGroupRequest, member_id: str) -> Sender:
    """The member that joins. An unknown one is new: `check_join` has checked the group's size."""
    instance_id = request.group_instance_id
    if instance_id is None:
        known = state.member(member_id)
    else:
        known = state.static_member(instance_id)
        if request.member_id:
            if known is None:
                raise unknown_member(state.group_id, member_id, instance_id)
            check_instance(known, member_id)
    if known is None:
        return Sender(new_member(state.group_id, member_id), is_new=True)
    if known.member_id == member_id:
        return Sender(known)
    # A static member may rejoin without having left, whichever protocol it used before.
    return Sender(successor(known, member_id), replaces=known.member_id)


def _updated_by_join(
    saved: ConsumerMemberSaved,
    request: JoinGroupRequest,
    joiner: Joiner,
    subscription: Subscription,
) -> ConsumerMemberSaved:
    return replace(
        saved,
        instance_id=request.group_instance_id or saved.instance_id,
        rack=subscription.rack_id or saved.rack,
        client_id=joiner.client_id,
        client_host=joiner.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        rebalance_timeout_ms=rebalance_timeout_ms(request),
        classic=ClassicMetadata(
            request.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        ),
    )


def joined(member: ConsumerGroupMember) -> JoinGroupResponse:
    """The answer to a join: the generation is the member's epoch, and there is no leader."""
    return JoinGroupResponse(
        error_code=ErrorCode.NONE,
        generation_id=member.current.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=classic_metadata(member).protocols[0][0],
        leader="",
        member_id=member.member_id,
        members=(),
    )


def find_classic_member(
    state: SavedGroup, member_id: str, instance_id: str | None, generation: int
) -> ConsumerGroupMember:
    """The classic member of a request. PeerError if it is unknown or has another generation."""
    member = _named(state, member_id, instance_id)
    if instance_id is not None:
        check_instance(member, member_id)
    if not member.is_classic:
        raise PeerError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol."
        )
    if member.current.epoch != generation:
        raise PeerError(
            ErrorCode.ILLEGAL_GENERATION,
            f"The request generation id {generation} is not equal to the member epoch"
            f" {member.current.epoch} of member {member_id}.",
        )
    return member


def _named(state: SavedGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
    if instance_id is None:
        member = state.member(member_id)
    else:
        member = state.static_member(instance_id)
    if member is None:
        raise unknown_member(state.group_id, member_id, instance_id)
    return member


def check_protocol(member: ConsumerGroupMember, request: SyncGroupRequest) -> None:
    """INCONSISTENT_GROUP_PROTOCOL unless the request has the protocol of the answer to its join."""
    name = classic_metadata(member).protocols[0][0]
    for given, expected in ((request.protocol_type, PROTOCOL_TYPE), (request.protocol_name, name)):
        # Older versions lack these fields.
        if given is not None and given != expected:
            raise _inconsistent(f"Member {member.member_id} has {expected}, not {given}.")


def is_sync_outdated(state: SavedGroup, member: ConsumerGroupMember) -> bool:
    """Whether there is a new target since the member joined. A member with partitions to revoke
    revokes these first."""
    must_revoke = member.current.state == MemberState.UNREVOKED_PARTITIONS
    return member.current.epoch < state.target_epoch and not must_revoke


def should_rejoin(
    state: SavedGroup, rules: ConsumerRules, member: ConsumerGroupMember, now_ms: int
) -> bool:
    """Whether the answer to a heartbeat asks the member to join again.

    It has to join to revoke partitions, to get partitions that are free now, to reach the target's
    epoch, or to compute a target that is due.
    """
    current = member.current
    if current.epoch < state.target_epoch or current.state == MemberState.UNREVOKED_PARTITIONS:
        return True
    if state.epoch > state.target_epoch:
        return is_assignment_due(state.assigned_ms, rules, now_ms)
    is_waiting = current.state == MemberState.UNRELEASED_PARTITIONS
    return is_waiting and not _waits_for_others(state, member)


def _waits_for_others(state: SavedGroup, member: ConsumerGroupMember) -> bool:
    assigned = member.current.assigned
    return any(
        state.owner(topic_id, index) is not None
        for topic_id, indexes in state.target(member.member_id).partitions.items()
        for index in indexes
        if index not in assigned.get(topic_id, ())
    )


def assignment(member: ConsumerGroupMember, topics: Topics) -> bytes:
    """A member's assignment, encoded in its own protocol."""
    return write_assignment(
        member.current.assigned, topics, classic_metadata(member).protocols[0][1]
    )


class Leaving(NamedTuple):
    """The members to remove, and one error code per entry of the request."""

    member_ids: tuple[str, ...]
    codes: tuple[ErrorCode, ...]


def find_leaving(state: SavedGroup, leaving: Sequence[leave_group.Member]) -> Leaving:
    """Finds members of both protocols by member id, or by instance id if an admin tool asks."""
    members: dict[str, None] = {}
    codes = []
    for each in leaving:
        try:
            member = _named(state, each.member_id, each.group_instance_id)
            # An admin tool knows only the instance id.
            if each.group_instance_id is not None and each.member_id:
                check_instance(member, each.member_id)
        except PeerError as error:
            codes.append(error.code)
        else:
            members[member.member_id] = None
            codes.append(ErrorCode.NONE)
    return Leaving(tuple(members), tuple(codes))


def classic_metadata(member: ConsumerGroupMember) -> ClassicMetadata:
    """The classic metadata of a classic member."""
    if member.saved.classic is None:
        raise TypeError(f"{member.member_id} does not speak the classic protocol")
    return member.saved.classic


def _inconsistent(message: str) -> PeerError:
    return PeerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
