"""JoinGroup: newcomers, members that come back, and static members under a new id."""

from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple

from ottla.coordinators.group.classic import rebalance, responses
from ottla.coordinators.group.classic.decision_builder import Draft
from ottla.coordinators.group.classic.member import ClassicGroupMember, rebalance_timeout_ms
from ottla.coordinators.group.classic.rules import NEWCOMER_TIMEOUT_MS
from ottla.coordinators.group.classic.states import ClassicGroupState
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.join_group import JoinGroupRequest

if TYPE_CHECKING:
    from ottla.coordinators.group.classic.group import ClassicGroup
    from ottla.coordinators.group.classic.rules import ClassicLimits

# From these versions on a client comes back with the id it was given (KIP-394), and knows that a
# leader may have nothing to assign (KIP-814).
ID_REQUIRED_SINCE = 4
SKIPPED_ASSIGNMENT_SINCE = 9


class Joiner(NamedTuple):
    """Who asks to join, besides what its request says."""

    version: int
    client_id: str
    client_host: str
    # Makes its member id unique if it needs one: if its request has none.
    fresh: str = ""
    # Its id in a group of the consumer protocol, where people know it by its client id.
    bare_id: str = ""

    def member_id(self, instance_id: str | None) -> str:
        """The id of a new member, by which people know whose it is."""
        return f"{self.client_id if instance_id is None else instance_id}-{self.fresh}"


def check(request: JoinGroupRequest, limits: "ClassicLimits") -> None:
    """Refuses what no group can take."""
    if not request.group_id:
        raise PeerError(ErrorCode.INVALID_GROUP_ID, "the group id is empty")
    if not (
        limits.session_timeout_ms_min <= request.session_timeout_ms <= limits.session_timeout_ms_max
    ):
        raise PeerError(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"a session timeout of {request.session_timeout_ms} ms is not allowed",
        )
    if not request.protocol_type or not request.protocols:
        raise PeerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no protocol is given")
    for protocol in request.protocols:
        if len(protocol.metadata) > limits.saved_bytes_max:
            # It could join, and no generation with it could ever be saved.
            raise PeerError(ErrorCode.UNKNOWN_SERVER_ERROR, "the member's metadata is too long")


def join(
    group: "ClassicGroup",
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    draft: Draft,
) -> None:
    if group.state is ClassicGroupState.DEAD:
        raise PeerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group is gone")
    if not _has_room(group, request):
        _turn_away(group, request, ticket, draft)
        return
    if not _fits(group, request):
        raise PeerError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the members have no such protocol in common"
        )
    if request.member_id:
        _join_known(group, request, joiner, ticket, draft)
    else:
        _join_unknown(group, request, joiner, ticket, draft)


def _has_room(group: "ClassicGroup", request: JoinGroupRequest) -> bool:
    """Whether one more may come. Who is in may stay, except that of too many (the limit was
    lowered) those are turned away who come back last."""
    member_id, instance_id = request.member_id, request.group_instance_id
    if not member_id and instance_id is not None and group.roster.instance(instance_id):
        return True
    match group.state:
        case ClassicGroupState.EMPTY:
            return True
        case ClassicGroupState.PREPARING_REBALANCE:
            joining = group.waiting.joins
            return member_id in joining or len(joining) < group.limits.members_max
        case _:
            return member_id in group.roster or len(group.roster) < group.limits.members_max


def _turn_away(
    group: "ClassicGroup", request: JoinGroupRequest, ticket: Hashable, draft: Draft
) -> None:
    draft.answer(ticket, responses.join_refused(ErrorCode.GROUP_MAX_SIZE_REACHED, ""))
    member = group.roster.get(request.member_id)
    if member is not None:
        group.drop(member, draft)
    elif request.member_id in group.promised_ids:
        group.break_promise(request.member_id, draft)
    rebalance.try_complete(group, draft)


def _fits(group: "ClassicGroup", request: JoinGroupRequest) -> bool:
    if group.state is ClassicGroupState.EMPTY:
        return True
    return group.protocol_type == request.protocol_type and group.roster.can_all_do(
        protocol.name for protocol in request.protocols
    )


def _join_unknown(
    group: "ClassicGroup",
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    draft: Draft,
) -> None:
    """Somebody without an id: a new member, or a static one that was here before."""
    instance_id = request.group_instance_id
    member_id = joiner.member_id(instance_id)
    known = None if instance_id is None else group.roster.instance(instance_id)
    if known is not None:
        _come_back(group, known, member_id, request, joiner, ticket, draft)
    elif instance_id is None and joiner.version >= ID_REQUIRED_SINCE:
        group.promise(member_id, request.session_timeout_ms, draft)
        draft.answer(ticket, responses.join_refused(ErrorCode.MEMBER_ID_REQUIRED, member_id))
    else:
        _add(group, member_id, request, joiner, ticket, draft)


def _join_known(
    group: "ClassicGroup",
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    draft: Draft,
) -> None:
    """Somebody with an id: one that was promised it, or a member."""
    if request.group_instance_id is None and request.member_id in group.promised_ids:
        _add(group, request.member_id, request, joiner, ticket, draft)
        return
    member = group.roster.check(request.member_id, request.group_instance_id)
    if _is_repeated(group, member, request):
        # It may not have got the answer to its last join: nothing is new, here it is again.
        draft.answer(ticket, responses.joined(group, member.member_id))
        return
    _renew(group, member, request, ticket, draft)
    rebalance.start_or_go_on(group, draft)


def _is_repeated(
    group: "ClassicGroup", member: ClassicGroupMember, request: JoinGroupRequest
) -> bool:
    """Whether a join changes nothing. That of a stable group's leader always does: that is how it
    asks for a rebalance when what it assigns has changed."""
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
    draft: Draft,
) -> None:
    before = member.protocol_names
    member.renew(request)
    group.roster.recount(member, before)
    group.waiting.join(member.member_id, ticket, draft)


def _add(
    group: "ClassicGroup",
    member_id: str,
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    draft: Draft,
) -> None:
    group.promised_ids.discard(member_id)
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
            is_newcomer=True,
        )
    )
    group.has_newcomer = True
    group.waiting.join(member_id, ticket, draft)
    draft.expect_beat(member_id, NEWCOMER_TIMEOUT_MS)
    rebalance.start_or_go_on(group, draft)


def _come_back(
    group: "ClassicGroup",
    member: ClassicGroupMember,
    member_id: str,
    request: JoinGroupRequest,
    joiner: Joiner,
    ticket: Hashable,
    draft: Draft,
) -> None:
    """A static member is back under a new id, and whoever has the old one is fenced. A stable
    group whose protocol stays the same goes on without a rebalance."""
    leader = group.roster.leader
    group.rename(member, member_id, draft)
    draft.expect_beat(member_id, request.session_timeout_ms)
    _renew(group, member, request, ticket, draft)
    if (
        group.state is not ClassicGroupState.STABLE
        or group.roster.chosen_protocol() != group.protocol
    ):
        rebalance.start_or_go_on(group, draft)
        return
    del group.waiting.joins[member_id]
    draft.save(group.saved_again())
    if joiner.version >= SKIPPED_ASSIGNMENT_SINCE:
        is_leader = group.roster.leader == member_id
        response = responses.in_generation(
            group, member_id, group.roster.leader, is_assignment_skipped=is_leader
        )
    else:
        # Named leader it would assign anew: it is told who led before, be it itself.
        response = responses.in_generation(group, member_id, leader)
    draft.answer(ticket, response)
