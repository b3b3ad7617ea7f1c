"""Online migration of a group with members between the two protocols (KIP-848). Pure.

Upgrade: the first member that joins by the consumer protocol converts a classic group. Each classic
member becomes a member of the consumer group; its epoch is the generation, and it keeps its
assignment. Downgrade: when the last member of the consumer protocol is gone, the others continue as
a classic group. Its generation is the epoch, and the members join again to rebalance.
"""

from collections.abc import Iterable, Iterator, Sequence

from ottla.coordinators.group.classic import responses
from ottla.coordinators.group.classic.decision_builder import (
    join_timer_key,
    session_timer_key,
    sync_timer_key,
)
from ottla.coordinators.group.classic.group import ClassicGroup
from ottla.coordinators.group.classic.member import ClassicGroupMember
from ottla.coordinators.group.classic.roster import Roster
from ottla.coordinators.group.consumer.classic_members import joined
from ottla.coordinators.group.consumer.member import ConsumerGroupMember
from ottla.coordinators.group.consumer.reconciliation import MemberState, held, uniform_epochs
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.saved_group import INITIAL_EPOCH, SavedGroup
from ottla.coordinators.group.consumer.timers import Timer, all_off
from ottla.coordinators.group.consumer.topics import Topics, shapes, shapes_hash
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.embedded_protocol import (
    MalformedProtocol,
    by_topic_id,
    read_assignment,
    read_subscription,
    write_assignment,
)
from ottla.coordinators.group.records import (
    ClassicGroupSaved,
    ClassicMetadata,
    ConsumerGroupSaved,
    ConsumerMemberSaved,
    CurrentAssignmentSaved,
    Partitions,
    Record,
    TargetAssignmentSaved,
    TargetEpochSaved,
    encode,
)
from ottla.coordinators.runtime.decision import Answered, TimerSet
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.consumer_protocol import PROTOCOL_TYPE, Subscription, TopicPartitions
from ottla.protocol.messages.join_group import Protocol
from ottla.protocol.primitives import Uuid

# Upgrade


def upgrade(group: ClassicGroup, rules: ConsumerRules, topics: Topics, now_ms: int) -> Decision:
    """Converts the group to a consumer group and answers its waiting joins and syncs.

    GROUP_ID_NOT_FOUND with the reason if the group cannot be upgraded.
    """
    _check_may_upgrade(group, rules)
    epoch = max(group.generation, INITIAL_EPOCH)
    try:
        members = [_read_member(group, each) for each in group.roster]
        assignments = _read_assignments(group, epoch, topics)
    except MalformedProtocol:
        raise _cannot_upgrade(group, "the embedded consumer protocol is malformed") from None
    return Decision(
        records=(
            *group.tombstones(),
            *_consumer_records(group.group_id, members, assignments, epoch, topics),
        ),
        answers=tuple(_answered(group, map(ConsumerGroupMember, members, assignments))),
        timers=tuple(_upgrade_timers(group, assignments, now_ms)),
    )


def _check_may_upgrade(group: ClassicGroup, rules: ConsumerRules) -> None:
    if not rules.migration.may_upgrade:
        raise _cannot_upgrade(group, "online upgrade is disabled")
    if group.protocol_type != PROTOCOL_TYPE:
        raise _cannot_upgrade(group, "the group does not use the consumer embedded protocol")
    if len(group.roster) > rules.size_max:
        raise _cannot_upgrade(group, "the group size exceeds the consumer group maximum size")


def _cannot_upgrade(group: ClassicGroup, why: str) -> PeerError:
    return PeerError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}.",
    )


def _read_member(group: ClassicGroup, member: ClassicGroupMember) -> ConsumerMemberSaved:
    subscription = _read_subscription(group, member)
    return ConsumerMemberSaved(
        group=group.group_id,
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=tuple(sorted(set(subscription.topics))),
        regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic=ClassicMetadata(
            member.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in member.protocols),
        ),
    )


def _read_subscription(group: ClassicGroup, member: ClassicGroupMember) -> Subscription:
    """The subscription of the group's protocol.

    A member that waits for the next generation may not have that protocol: then its first one.
    """
    return read_subscription(member.metadata(group.protocol) or member.protocols[0].metadata)


def _read_assignments(
    group: ClassicGroup, epoch: int, topics: Topics
) -> list[CurrentAssignmentSaved]:
    """The current assignments of the members after the upgrade.

    A member may still own partitions that it had when it joined and that are not assigned to any
    member: a cooperative rebalance moves partitions this way. It has to report their revocation.
    The leader's assignment was never checked: a partition of several members goes to the first.
    """
    taken: set[tuple[Uuid, int]] = set()
    assigned = [_untaken(_read_assigned(group, each), taken, topics) for each in group.roster]
    revoking = [
        _untaken(_read_subscription(group, each).owned_partitions, taken, topics)
        for each in group.roster
    ]
    return [
        CurrentAssignmentSaved(
            group=group.group_id,
            member_id=member.member_id,
            epoch=epoch,
            previous_epoch=epoch,
            state=MemberState.UNREVOKED_PARTITIONS if owned else MemberState.STABLE,
            assigned=given,
            revoking=owned,
            assigned_epochs=uniform_epochs(given, epoch),
            revoking_epochs=uniform_epochs(owned, epoch),
        )
        for member, given, owned in zip(group.roster, assigned, revoking, strict=True)
    ]


def _read_assigned(group: ClassicGroup, member: ClassicGroupMember) -> tuple[TopicPartitions, ...]:
    read = read_assignment(member.assignment)
    if read.user_data:
        raise _cannot_upgrade(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or"
            " switch to a default assignor before re-attempting the upgrade",
        )
    return read.assigned_partitions


def _untaken(
    named: tuple[TopicPartitions, ...], taken: set[tuple[Uuid, int]], topics: Topics
) -> Partitions:
    """The partitions that are not in `taken`; they are added to it."""
    found: dict[Uuid, tuple[int, ...]] = {}
    for topic_id, indexes in by_topic_id(named, topics).items():
        free = tuple(index for index in indexes if (topic_id, index) not in taken)
        taken.update((topic_id, index) for index in free)
        if free:
            found[topic_id] = free
    return found


def _consumer_records(
    group_id: str,
    members: Sequence[ConsumerMemberSaved],
    assignments: Sequence[CurrentAssignmentSaved],
    epoch: int,
    topics: Topics,
) -> Iterator[Record]:
    """Records in Kafka's order. The assignments are also the targets, until the next epoch."""
    yield from members
    names = {name for member in members for name in member.topics}
    yield ConsumerGroupSaved(group_id, epoch, shapes_hash(shapes(names, topics)))
    for current in assignments:
        yield TargetAssignmentSaved(group_id, current.member_id, current.assigned)
    yield TargetEpochSaved(group_id, epoch)
    yield from assignments


def _answered(group: ClassicGroup, members: Iterable[ConsumerGroupMember]) -> Iterator[Answered]:
    """A waiting join succeeds; the next sync or heartbeat tells the member to join again.

    Kafka refuses the join. Java's client then joins again, but other clients treat it as a failure.
    """
    joins = group.parked.joins
    for member in members:
        if member.member_id in joins:
            yield Answered(joins[member.member_id], joined(member))
    for ticket in group.parked.syncs.values():
        yield Answered(ticket, responses.sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))


def _upgrade_timers(
    group: ClassicGroup, assignments: Sequence[CurrentAssignmentSaved], now_ms: int
) -> Iterator[TimerSet]:
    group_id = group.group_id
    yield TimerSet(join_timer_key(group_id), None)
    yield TimerSet(sync_timer_key(group_id), None)
    for member_id in group.pending_ids:
        yield TimerSet(session_timer_key(group_id, member_id), None)
    for member, current in zip(group.roster, assignments, strict=True):
        due_ms = now_ms + member.session_timeout_ms
        yield Timer.SESSION.at(group_id, member.member_id, due_ms)
        if current.revoking:
            due_ms = now_ms + member.rebalance_timeout_ms
            yield Timer.REBALANCE.at(group_id, member.member_id, due_ms)


# Downgrade


def downgrade(
    state: SavedGroup,
    members: Sequence[ConsumerGroupMember],
    rules: ConsumerRules,
    topics: Topics,
    now_ms: int,
    *,
    must_rejoin: bool,
) -> ClassicGroupSaved | None:
    """The record of the classic group of these members; None if the downgrade is not possible.

    Each member is assigned everything that it may be reading. If the members must join again, the
    group is saved without a leader, so that a load before that also starts a rebalance.
    """
    if not _may_downgrade(members, rules):
        return None
    classic = [_joined_member(each.saved) for each in members]
    roster = Roster()
    roster.replace(classic, None)
    if not roster.all_support_one_of(classic[0].protocol_names):
        return None
    protocol = roster.chosen_protocol()
    try:
        saved = tuple(
            each.saved(
                protocol, write_assignment(held(member.current), topics, each.metadata(protocol))
            )
            for each, member in zip(classic, members, strict=True)
        )
    except MalformedProtocol:
        return None
    leader = None if must_rejoin else roster.leader
    record = ClassicGroupSaved(
        state.group_id, PROTOCOL_TYPE, state.epoch, protocol, leader, now_ms, saved
    )
    return record if _size(record) <= rules.saved_bytes_max else None


def _may_downgrade(members: Sequence[ConsumerGroupMember], rules: ConsumerRules) -> bool:
    return (
        rules.migration.may_downgrade
        and 0 < len(members) <= rules.classic_size_max
        and all(each.is_classic for each in members)
    )


def _joined_member(member: ConsumerMemberSaved) -> ClassicGroupMember:
    classic = member.classic or ClassicMetadata(0, ())
    return ClassicGroupMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple(
            Protocol(name=name, metadata=metadata) for name, metadata in classic.protocols
        ),
    )


def _size(record: Record) -> int:
    key, value = encode(record)
    return len(key) + len(value or b"")


def downgrade_timers(
    classic: ClassicGroupSaved, before: Iterable[str], now_ms: int
) -> Iterator[TimerSet]:
    """Cancels the timers of all members of the consumer group and sets those of the classic one."""
    for member_id in before:
        yield from all_off(classic.group, member_id)
    for member in classic.members:
        due_ms = now_ms + member.session_timeout_ms
        yield TimerSet(session_timer_key(classic.group, member.member_id), due_ms)
    if classic.leader is None:
        wait_ms = max(member.rebalance_timeout_ms for member in classic.members)
        yield TimerSet(join_timer_key(classic.group), now_ms + wait_ms)
