"""One member of a consumer group: its saved state, and the heartbeats that it may send."""

from dataclasses import replace
from typing import NamedTuple

from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.reconciliation import (
    NO_PARTITIONS,
    MemberState,
    includes,
    uniform_epochs,
)
from ottla.coordinators.group.records import (
    ConsumerMemberSaved,
    ConsumerMemberTombstone,
    CurrentAssignmentSaved,
    CurrentAssignmentTombstone,
    Partitions,
    Record,
    TargetAssignmentTombstone,
)
from ottla.errors import ErrorCode, PeerError


class ConsumerGroupMember(NamedTuple):
    """The saved records of one member."""

    saved: ConsumerMemberSaved
    current: CurrentAssignmentSaved

    @property
    def member_id(self) -> str:
        return self.saved.member_id

    @property
    def is_classic(self) -> bool:
        """Whether it uses the classic protocol."""
        return self.saved.is_classic

    @property
    def has_left_temporarily(self) -> bool:
        return self.current.epoch == SpecialEpoch.LEAVE_STATIC

    def check_epoch(self, epoch: int, owned: Partitions | None) -> None:
        """FENCED_MEMBER_EPOCH unless the member has its current epoch.

        It may have the previous epoch if it owns only assigned partitions: the answer with the new
        epoch may have been lost. It may always join again, without partitions.
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
    """A member before its first heartbeat."""
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
        empty_assignment(group_id, member_id),
    )


def empty_assignment(group_id: str, member_id: str) -> CurrentAssignmentSaved:
    """The current assignment of a member before its first one."""
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
    """The same static member with a new member id: it joins, and keeps its partitions."""
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


def temporarily_left(current: CurrentAssignmentSaved) -> CurrentAssignmentSaved:
    """A static member has left temporarily: it keeps its partitions, and none is to be revoked."""
    return replace(
        current,
        epoch=SpecialEpoch.LEAVE_STATIC,
        previous_epoch=current.epoch,
        state=MemberState.STABLE,
        revoking=NO_PARTITIONS,
        # The epochs of its successor, with which that one commits, are all later.
        assigned_epochs=uniform_epochs(current.assigned, SpecialEpoch.JOIN),
        revoking_epochs=NO_PARTITIONS,
    )


def updated_by_heartbeat(saved: ConsumerMemberSaved, beat: Heartbeat) -> ConsumerMemberSaved:
    """The member with the fields of its heartbeat; fields that it leaves out stay as they were."""
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


def has_same_subscription(one: ConsumerMemberSaved, other: ConsumerMemberSaved) -> bool:
    return one.topics == other.topics and (one.regex or "") == (other.regex or "")


def member_tombstones(group_id: str, member_id: str) -> tuple[Record, ...]:
    """The tombstones of one member, in Kafka's order."""
    return (
        CurrentAssignmentTombstone(group_id, member_id),
        TargetAssignmentTombstone(group_id, member_id),
        ConsumerMemberTombstone(group_id, member_id),
    )


def check_instance(member: ConsumerGroupMember, member_id: str) -> None:
    """FENCED_INSTANCE_ID if another member has this static member's instance id now."""
    if member.member_id != member_id:
        raise PeerError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {member.saved.instance_id} was fenced by"
            f" member {member.member_id}.",
        )


def unknown_member(group_id: str, member_id: str, instance_id: str | None = None) -> PeerError:
    """The refusal of a request with an unknown member id or instance id."""
    message = f"Member {member_id} is not a member of group {group_id}."
    if instance_id is not None:
        message = f"Instance id {instance_id} is unknown."
    return PeerError(ErrorCode.UNKNOWN_MEMBER_ID, message)
