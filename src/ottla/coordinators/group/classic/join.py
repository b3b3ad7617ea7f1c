"""JoinGroup: new members, members that rejoin, and static members with a new member id."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinators.group.classic import rebalance, responses
from ottla.coordinators.group.classic.decision_builder import DecisionBuilder
from ottla.coordinators.group.classic.member import ClassicGroupMember, rebalance_timeout_ms
from ottla.coordinators.group.classic.rules import NEW_MEMBER_TIMEOUT_MS
from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from ottla.coordinators.group.classic.group import ClassicGroup
    from ottla.coordinators.group.classic.rules import ClassicRules

# From these versions on a client joins again with the id that it was given (KIP-394), and a leader
# can be told to skip the assignment (KIP-814).
ID_REQUIRED_SINCE = 4
SKIPPED_ASSIGNMENT_SINCE = 9


class Joiner(NamedTuple):
    """The client that joins: the fields that are not in its request."""

    version: int
    client_id: str
    client_host: str
    # Unique; the suffix of the member id, if the request has none.
    id_suffix: str = ""
    # The member id in a consumer group, whose ids do not contain the client id.
    consumer_member_id: str = ""

    def member_id(self, instance_id: str | None) -> str:
        """The id of a new member, which starts with its instance id or client id."""
        return f"{self.client_id if instance_id is None else instance_id}-{self.id_suffix}"


def check(request: JoinGroupRequest, rules: "ClassicRules") -> None:
    """PeerError if no classic group could accept the request."""
    if not request.group_id:
        raise PeerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    if not (
        rules.session_timeout_ms_min <= request.session_timeout_ms <= rules.session_timeout_ms_max
    ):
        raise PeerError(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"a session timeout of {request.session_timeout_ms} ms is not allowed",
        )
    if not request.protocol_type or not request.protocols:
        raise PeerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol is given")
    for protocol in request.protocols:
        if len(protocol.metadata) > rules.saved_bytes_max:
            # A generation with this member could never be saved.
            raise PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the member's metadata is too long")


def join(
    group: "ClassicGroup",
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    builder: DecisionBuilder,
) -> None:
    if group.state is ClassicGroupState.DEAD:
        raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group is gone")
    if not _has_room(group, request):
        _refuse_for_size(group, request, ticket, builder)
        return
    if not _has_common_protocol(group, request):
        raise PeerError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the members have no such protocol in common"
        )
    if request.member_id:
        _join_known(group, request, joiner, ticket, builder)
    else:
        _join_unknown(group, request, joiner, ticket, builder)


def _has_room(group: "ClassicGroup", request: JoinGroupRequest) -> bool:
    """Whether the group has room for this member. Members may stay.

    If the maximum size was lowered below the size of the group, the last members to rejoin are
    refused.
    """
    member_id, instance_id = request.member_id, request.group_instance_id
    if not member_id and instance_id is not None and group.roster.instance(instance_id):
        return True
    match group.state:
        case ClassicGroupState.EMPTY:
            return True
        case ClassicGroupState.PREPARING_REBALANCE:
            joining = group.parked.joins
            return member_id in joining or len(joining) < group.rules.members_max
        case _:
            return member_id in group.roster or len(group.roster) < group.rules.members_max


def _refuse_for_size(
    group: "ClassicGroup", request: JoinGroupRequest, ticket: Hashable, builder: DecisionBuilder
) -> None:
    builder.answer(ticket, responses.join_refused(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
    member = group.roster.get(request.member_id)
    if member is not None:
        group.drop(member, builder)
    elif request.member_id in group.pending_ids:
        group.remove_pending(request.member_id, builder)
    rebalance.try_complete(group, builder)


def _has_common_protocol(group: "ClassicGroup", request: JoinGroupRequest) -> bool:
    if group.state is ClassicGroupState.EMPTY:
        return True
    return group.protocol_type == request.protocol_type and group.roster.all_support_one_of(
        protocol.name for protocol in request.protocols
    )


def _join_unknown(
    group: "ClassicGroup",
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    builder: DecisionBuilder,
) -> None:
    """A join without a member id: a new member, or a known static member."""
    instance_id = request.group_instance_id
    member_id = joiner.member_id(instance_id)
    known = None if instance_id is None else group.roster.instance(instance_id)
    if known is not None:
        _replace_static(group, known, member_id, request, joiner, ticket, builder)
    elif instance_id is None and joiner.version >= ID_REQUIRED_SINCE:
        group.add_pending(member_id, request.session_timeout_ms, builder)
        builder.answer(ticket, responses.join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    else:
        _add(group, member_id, request, joiner, ticket, builder)


def _join_known(
    group: "ClassicGroup",
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    builder: DecisionBuilder,
) -> None:
    """A join with a member id: a pending member, or a known one."""
    if request.group_instance_id is None and request.member_id in group.pending_ids:
        _add(group, request.member_id, request, joiner, ticket, builder)
        return
    member = group.roster.check(request.member_id, request.group_instance_id)
    if _is_repeated(group, member, request):
        # The answer to its last join may have been lost: it is repeated.
        builder.answer(ticket, responses.joined(group, member.member_id))
        return
    _renew(group, member, request, ticket, builder)
    rebalance.start_or_try_complete(group, builder)


def _is_repeated(
    group: "ClassicGroup", member: ClassicGroupMember, request: JoinGroupRequest
) -> bool:
    """Whether a join changes nothing.

    The leader's join to a stable group always does: it asks for a rebalance, because the topics or
    partitions that it assigns have changed.
    """
    if member.protocols != request.protocols:
        return False
    if group.state is ClassicGroupState.STABLE:
        return group.roster.leader != member.member_id
    return group.state is ClassicGroupState.COMPLETING_REBALANCE


def _renew(
    group: "ClassicGroup",
    member: ClassicGroupMember,
    request: JoinGroupRequest,
    ticket: Hashable,
    builder: DecisionBuilder,
) -> None:
    before = member.protocol_names
    member.renew(request)
    group.roster.recount(member, before)
    group.parked.join(member.member_id, ticket, builder)


def _add(
    group: "ClassicGroup",
    member_id: str,
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    builder: DecisionBuilder,
) -> None:
    group.pending_ids.discard(member_id)
    if not group.roster:
        group.protocol_type = request.protocol_type
    group.roster.add(
        ClassicGroupMember(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=joiner.client_id,
            client_host=joiner.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms(request),
            protocols=request.protocols,
            is_new=True,
        )
    )
    group.has_new_member = True
    group.parked.join(member_id, ticket, builder)
    builder.set_session_timer(member_id, NEW_MEMBER_TIMEOUT_MS)
    rebalance.start_or_try_complete(group, builder)


def _replace_static(
    group: "ClassicGroup",
    member: ClassicGroupMember,
    member_id: str,
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    builder: DecisionBuilder,
) -> None:
    """A static member rejoins with a new member id; the client with the old id is fenced.

    A stable group whose protocol stays the same does not rebalance.
    """
    leader = group.roster.leader
    group.rename(member, member_id, builder)
    builder.set_session_timer(member_id, request.session_timeout_ms)
    _renew(group, member, request, ticket, builder)
    if (
        group.state is not ClassicGroupState.STABLE
        or group.roster.chosen_protocol() != group.protocol
    ):
        rebalance.start_or_try_complete(group, builder)
        return
    del group.parked.joins[member_id]
    builder.save(group.saved_again())
    if joiner.version >= SKIPPED_ASSIGNMENT_SINCE:
        is_leader = group.roster.leader == member_id
        response = responses.in_generation(
            group, member_id, group.roster.leader, is_assignment_skipped=is_leader
        )
    else:
        # As the leader it would assign again: the answer names the old id, even if it was its own.
        response = responses.in_generation(group, member_id, leader)
    builder.answer(ticket, response)
