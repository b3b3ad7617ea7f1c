"""A group that moves from one protocol to the other while it has members (KIP-848). Pure.

It moves up when the first member joins by the consumer protocol: each classic member becomes a
member of the consumer group, at the epoch that its generation was, with what it was assigned. It
moves down when the last such member is gone: the others go on as a classic group, at the generation
that the epoch was, and join again to share out what is left.
"""

from collections.abc import Iterable, Iterator, Sequence

from ottla.coordinators.group.classic import responses
from ottla.coordinators.group.classic.decision_builder import joining_key, session_key, syncing_key
from ottla.coordinators.group.classic.group import ClassicGroup
from ottla.coordinators.group.classic.member import ClassicGroupMember
from ottla.coordinators.group.classic.roster import Roster
from ottla.coordinators.group.consumer.classic_members import joined
from ottla.coordinators.group.consumer.member import ConsumerGroupMember
from ottla.coordinators.group.consumer.reconciliation import MemberState, epochs_alike, held
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.saved_group import INITIAL_EPOCH, SavedGroup
from ottla.coordinators.group.consumer.timers import Timer, all_off
from ottla.coordinators.group.consumer.topics import Topics, shapes, shapes_hash
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.embedded_protocol import (
    NotEmbedded,
    by_topic_id,
    read_assignment,
    read_subscription,
    write_assignment,
)
from ottla.coordinators.group.records import (
    ClassicGroupSaved,
    ClassicMember,
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

# Up


def moved_up(group: ClassicGroup, rules: ConsumerRules, topics: Topics, now_ms: int) -> Decision:
    """The group as one of the consumer protocol; whoever waits is answered as its member.

    GROUP_ID_NOT_FOUND says why it cannot be.
    """
    _check_may_move_up(group, rules)
    epoch = max(group.generation, INITIAL_EPOCH)
    try:
        members = [_read_member(group, each) for each in group.roster]
        standing = _read_standing(group, epoch, topics)
    except NotEmbedded:
        raise _stays(group, "the embedded consumer protocol is malformed") from None
    return Decision(
        records=(
            *group.forgotten(),
            *_consumer_records(group.group_id, members, standing, epoch, topics),
        ),
        answers=tuple(_answered(group, map(ConsumerGroupMember, members, standing))),
        timers=tuple(_timers_moved_up(group, standing, now_ms)),
    )


def _check_may_move_up(group: ClassicGroup, rules: ConsumerRules) -> None:
    if not rules.migration.may_upgrade:
        raise _stays(group, "online upgrade is disabled")
    if group.protocol_type != PROTOCOL_TYPE:
        raise _stays(group, "the group does not use the consumer embedded protocol")
    if len(group.roster) > rules.size_max:
        raise _stays(group, "the group size exceeds the consumer group maximum size")


def _stays(group: ClassicGroup, why: str) -> PeerError:
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
        classic=ClassicMember(
            member.session_timeout_ms,
            tuple((protocol.name, protocol.metadata) for protocol in member.protocols),
        ),
    )


def _read_subscription(group: ClassicGroup, member: ClassicGroupMember) -> Subscription:
    """By the group's protocol; who has not joined by it, in a generation to come, by its own."""
    return read_subscription(member.metadata(group.protocol) or member.protocols[0].metadata)


def _read_standing(group: ClassicGroup, epoch: int, topics: Topics) -> list[CurrentAssignmentSaved]:
    """Where each member stands: it has what it was assigned.

    What it owned besides when it joined it may not have given up yet, although it was assigned to
    nobody: so cooperative members hand partitions over. It has to say that it did. Nobody checked
    what a leader assigned, so of a partition that several have the first one has it.
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
            assigned_epochs=epochs_alike(given, epoch),
            revoking_epochs=epochs_alike(owned, epoch),
        )
        for member, given, owned in zip(group.roster, assigned, revoking, strict=True)
    ]


def _read_assigned(group: ClassicGroup, member: ClassicGroupMember) -> tuple[TopicPartitions, ...]:
    read = read_assignment(member.assignment)
    if read.user_data:
        raise _stays(
            group,
            "an unsupported custom assignor is in use. Please refer to the documentation or"
            " switch to a default assignor before re-attempting the upgrade",
        )
    return read.assigned_partitions


def _untaken(
    named: tuple[TopicPartitions, ...], taken: set[tuple[Uuid, int]], topics: Topics
) -> Partitions:
    """Those that nobody has, and that are taken from now on."""
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
    standing: Sequence[CurrentAssignmentSaved],
    epoch: int,
    topics: Topics,
) -> Iterator[Record]:
    """In Kafka's order. What they were assigned is their target, until the next epoch."""
    yield from members
    names = {name for member in members for name in member.topics}
    yield ConsumerGroupSaved(group_id, epoch, shapes_hash(shapes(names, topics)))
    for current in standing:
        yield TargetAssignmentSaved(group_id, current.member_id, current.assigned)
    yield TargetEpochSaved(group_id, epoch)
    yield from standing


def _answered(group: ClassicGroup, members: Iterable[ConsumerGroupMember]) -> Iterator[Answered]:
    """Who waits to join has joined, and hears with its sync or its next heartbeat to join again.

    Kafka refuses the join. Java's client joins again then, but others take it for a failure.
    """
    joins = group.waiting.joins
    for member in members:
        if member.member_id in joins:
            yield Answered(joins[member.member_id], joined(member))
    for ticket in group.waiting.syncs.values():
        yield Answered(ticket, responses.sync_refused(ErrorCode.REBALANCE_IN_PROGRESS))


def _timers_moved_up(
    group: ClassicGroup, standing: Sequence[CurrentAssignmentSaved], now_ms: int
) -> Iterator[TimerSet]:
    group_id = group.group_id
    yield TimerSet(joining_key(group_id), None)
    yield TimerSet(syncing_key(group_id), None)
    for member_id in group.promised_ids:
        yield TimerSet(session_key(group_id, member_id), None)
    for member, current in zip(group.roster, standing, strict=True):
        due_ms = now_ms + member.session_timeout_ms
        yield Timer.SESSION.at(group_id, member.member_id, due_ms)
        if current.revoking:
            due_ms = now_ms + member.rebalance_timeout_ms
            yield Timer.REBALANCE.at(group_id, member.member_id, due_ms)


# Down


def moved_down(
    state: SavedGroup,
    members: Sequence[ConsumerGroupMember],
    rules: ConsumerRules,
    topics: Topics,
    now_ms: int,
    *,
    must_rejoin: bool,
) -> ClassicGroupSaved | None:
    """The classic group of these members, with what each may be reading; None if it cannot be.

    If they must join again it has no leader: so it is saved, that a load before they did calls them
    together as well.
    """
    if not _may_move_down(members, rules):
        return None
    classic = [_joined_member(each.saved) for each in members]
    roster = Roster()
    roster.replace(classic, None)
    if not roster.can_all_do(classic[0].protocol_names):
        return None
    protocol = roster.chosen_protocol()
    try:
        saved = tuple(
            each.saved(
                protocol, write_assignment(held(member.current), topics, each.metadata(protocol))
            )
            for each, member in zip(classic, members, strict=True)
        )
    except NotEmbedded:
        return None
    leader = None if must_rejoin else roster.leader
    record = ClassicGroupSaved(
        state.group_id, PROTOCOL_TYPE, state.epoch, protocol, leader, now_ms, saved
    )
    return record if _size(record) <= rules.saved_bytes_max else None


def _may_move_down(members: Sequence[ConsumerGroupMember], rules: ConsumerRules) -> bool:
    return (
        rules.migration.may_downgrade
        and 0 < len(members) <= rules.classic_size_max
        and all(each.is_classic for each in members)
    )


def _joined_member(member: ConsumerMemberSaved) -> ClassicGroupMember:
    classic = member.classic or ClassicMember(0, ())
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


def timers_moved_down(
    classic: ClassicGroupSaved, before: Iterable[str], now_ms: int
) -> Iterator[TimerSet]:
    """Those of the members that were there before end, those of a classic group begin."""
    for member_id in before:
        yield from all_off(classic.group, member_id)
    for member in classic.members:
        due_ms = now_ms + member.session_timeout_ms
        yield TimerSet(session_key(classic.group, member.member_id), due_ms)
    if classic.leader is None:
        wait_ms = max(member.rebalance_timeout_ms for member in classic.members)
        yield TimerSet(joining_key(classic.group), now_ms + wait_ms)
