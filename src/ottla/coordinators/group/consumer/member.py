"""One member: who it is and where it stands, and which heartbeats it may send."""

from dataclasses import replace
from typing import NamedTuple

from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.reconciliation import (
    NO_PARTITIONS,
    MemberState,
    epochs_alike,
    includes,
)
from ottla.coordinators.group.records import (
    ConsumerMemberForgotten,
    ConsumerMemberSaved,
    CurrentAssignmentForgotten,
    CurrentAssignmentSaved,
    Partitions,
    Record,
    TargetAssignmentForgotten,
)
from ottla.errors import ErrorCode, PeerError


class ConsumerGroupMember(NamedTuple):
    """What is saved of one member."""

    saved: ConsumerMemberSaved
    current: CurrentAssignmentSaved

    @property
    def member_id(self) -> str:
        return self.saved.member_id

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.saved.is_classic

    @property
    def has_stepped_aside(self) -> bool:
        return self.current.epoch == SpecialEpoch.STEP_ASIDE

    def check_epoch(self, epoch: int, owned: Partitions | None) -> None:
        """FENCED_MEMBER_EPOCH unless the member is where the group thinks it is.

        It may be one epoch behind, if it owns nothing that it was not given: the answer that told
        of the new one may have been lost. And it may always start anew, owning nothing.
        """
        known = self.current.epoch
        if epoch in (known, SpecialEpoch.JOIN):
            return
        is_one_behind = self.current.previous_epoch == epoch < known
        if is_one_behind and owned is not None and includes(self.current.assigned, owned):
            return
        raise PeerError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The consumer group member has a {'greater' if epoch > known else 'smaller'} member"
            f" epoch ({epoch}) than the one known by the group coordinator ({known})."
            " The member must abandon all its partitions and rejoin.",
        )


def new_member(group_id: str, member_id: str) -> ConsumerGroupMember:
    """One that has said nothing yet."""
    return ConsumerGroupMember(
        ConsumerMemberSaved(
            group=group_id,
            member_id=member_id,
            instance_id=None,
            rack=None,
            client_id="",
            client_host="",
            topics=(),
            regex="",
            rebalance_timeout_ms=-1,
            server_assignor=None,
        ),
        standing_nowhere(group_id, member_id),
    )


def standing_nowhere(group_id: str, member_id: str) -> CurrentAssignmentSaved:
    """Where a member stands that was given nothing yet."""
    return CurrentAssignmentSaved(
        group=group_id,
        member_id=member_id,
        epoch=SpecialEpoch.JOIN,
        previous_epoch=SpecialEpoch.JOIN,
        state=MemberState.STABLE,
        assigned=NO_PARTITIONS,
        revoking=NO_PARTITIONS,
    )


def successor(member: ConsumerGroupMember, member_id: str) -> ConsumerGroupMember:
    """The same static member under a new name: it joins, and what it owned is still its own."""
    return ConsumerGroupMember(
        replace(member.saved, member_id=member_id),
        replace(
            member.current,
            member_id=member_id,
            epoch=SpecialEpoch.JOIN,
            previous_epoch=SpecialEpoch.JOIN,
            state=MemberState.STABLE,
            revoking=NO_PARTITIONS,
            revoking_epochs=NO_PARTITIONS,
        ),
    )


def stepped_aside(current: CurrentAssignmentSaved) -> CurrentAssignmentSaved:
    """A static member is away: it keeps what it owns, and has given up what it had to."""
    return replace(
        current,
        epoch=SpecialEpoch.STEP_ASIDE,
        previous_epoch=current.epoch,
        state=MemberState.STABLE,
        revoking=NO_PARTITIONS,
        # Its successor commits under epochs of its own, and those are all later.
        assigned_epochs=epochs_alike(current.assigned, SpecialEpoch.JOIN),
        revoking_epochs=NO_PARTITIONS,
    )


def as_it_says(saved: ConsumerMemberSaved, beat: Heartbeat) -> ConsumerMemberSaved:
    """The member with all that its heartbeat says; of what it leaves out, what was known."""
    request = beat.request
    names = request.subscribed_topic_names
    regex = request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        saved,
        instance_id=saved.instance_id if request.instance_id is None else request.instance_id,
        rack=saved.rack if request.rack_id is None else request.rack_id,
        client_id=beat.client_id,
        client_host=beat.client_host,
        topics=saved.topics if names is None else tuple(sorted(set(names))),
        regex=saved.regex if regex is None else regex,
        rebalance_timeout_ms=saved.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor or saved.server_assignor,
        classic=None,
    )


def subscribes_alike(one: ConsumerMemberSaved, other: ConsumerMemberSaved) -> bool:
    return one.topics == other.topics and (one.regex or "") == (other.regex or "")


def member_forgotten(group_id: str, member_id: str) -> tuple[Record, ...]:
    """The tombstones of one member, in Kafka's order."""
    return (
        CurrentAssignmentForgotten(group_id, member_id),
        TargetAssignmentForgotten(group_id, member_id),
        ConsumerMemberForgotten(group_id, member_id),
    )


def check_instance(member: ConsumerGroupMember, member_id: str) -> None:
    """FENCED_INSTANCE_ID if a static member's instance is somebody else now."""
    if member.member_id != member_id:
        raise PeerError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {member.saved.instance_id} was fenced by"
            f" member {member.member_id}.",
        )


def unknown_member(group_id: str, member_id: str, instance_id: str | None = None) -> PeerError:
    """What is answered to somebody that the group does not have."""
    message = f"Member {member_id} is not a member of group {group_id}."
    if instance_id is not None:
        message = f"Instance id {instance_id} is unknown."
    return PeerError(ErrorCode.UNKNOWN_MEMBER_ID, message)
