"""A consumer group (KIP-848): decides on heartbeats and timers. Pure.

The durable state is in `SavedGroup` and changes only by `replay`. Some members may use the classic
protocol; when only such members are left, the group is downgraded to a classic one.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence

from ottla.coordinators.group import migration
from ottla.coordinators.group.classic.join import Joiner
from ottla.coordinators.group.consumer import classic_requests, offset_checks
from ottla.coordinators.group.consumer.heartbeat import decide_heartbeat, decide_new_member
from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    check_instance,
    member_tombstones,
    temporarily_left,
    unknown_member,
)
from ottla.coordinators.group.consumer.member_update import (
    Outcome,
    SubscriptionChecks,
    UpdateContext,
)
from ottla.coordinators.group.consumer.reconciliation import MemberState
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.saved_group import SavedGroup
from ottla.coordinators.group.consumer.states import STATES, ConsumerGroupState, GroupProgress
from ottla.coordinators.group.consumer.timers import Timer, all_off
from ottla.coordinators.group.consumer.topics import NO_TOPICS_HASH, NoTopics, Topics
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import GroupType
from ottla.coordinators.group.offsets import CommitCheck, accept_any
from ottla.coordinators.group.records import (
    ConsumerGroupSaved,
    ConsumerGroupTombstone,
    ConsumerMemberSaved,
    CurrentAssignmentSaved,
    Partitions,
    Record,
    RegexTombstone,
    TargetEpochTombstone,
)
from ottla.coordinators.runtime.decision import NOTHING, Answered, TimerSet
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages import leave_group
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest

_NO_EPOCH = -1


class ConsumerGroup:
    """See the module. It implements `Group`; `classic_requests` uses its attributes."""

    group_type = GroupType.CONSUMER
    protocol_type = "consumer"

    def __init__(
        self, group_id: str, rules: ConsumerRules | None = None, topics: Topics | None = None
    ) -> None:
        self.saved = SavedGroup(group_id)
        # Requests replace both by the newest ones.
        self.rules = rules or ConsumerRules()
        self.topics = topics or NoTopics()
        self.checks = SubscriptionChecks()
        # Classic members that were told to join again and have a join timer.
        self.asked_to_rejoin: set[str] = set()

    # Queries

    @property
    def group_id(self) -> str:
        return self.saved.group_id

    @property
    def is_empty(self) -> bool:
        return not self.saved.members

    @property
    def member_count(self) -> int:
        return len(self.saved.members)

    @property
    def state_name(self) -> str:
        """The state as ListGroups and ConsumerGroupDescribe show it."""
        if self.is_empty:
            return ConsumerGroupState.EMPTY.value
        is_target_due = self.saved.epoch > self.saved.target_epoch
        is_settled = all(self.is_settled(self.saved.current(each)) for each in self.saved.members)
        return STATES[GroupProgress(is_target_due, is_settled)].value

    def is_settled(self, current: CurrentAssignmentSaved) -> bool:
        """Whether a member with this current assignment owns its target assignment."""
        return (current.state, current.epoch) == (MemberState.STABLE, self.saved.target_epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member is subscribed to the topic."""
        subscriptions = self.saved.subscriptions
        return any(topic in subscriptions.names(each) for each in self.saved.members.values())

    # Heartbeats

    def heartbeat(self, beat: Heartbeat) -> Decision:
        """Decides on a heartbeat. PeerError if it is refused: then nothing has changed."""
        self.topics = beat.topics
        epoch = beat.request.member_epoch
        if epoch == SpecialEpoch.LEAVE:
            member = self._leaving(beat)
            return self._answered(beat, epoch, self.left((member.member_id,), beat.now_ms))
        if epoch == SpecialEpoch.LEAVE_STATIC:
            return self._answered(beat, epoch, self._leave_temporarily(beat))
        outcome = decide_heartbeat(self.saved, self.checks, self.rules, beat)
        return Decision(
            records=outcome.records,
            answers=(Answered(beat.ticket, self._answer(beat, outcome)),),
            timers=tuple(self.timers_after(outcome, beat.now_ms)),
        )

    def add_member(self, beat: Heartbeat) -> Decision:
        """Saves a joining member, without an answer: its heartbeat is decided later.

        The first of these heartbeats to be decided computes one target for all members.
        """
        self.topics = beat.topics
        records = decide_new_member(self.saved, self.checks, self.rules, beat)
        if not records:
            return NOTHING
        due_ms = beat.now_ms + self.rules.session_timeout_ms
        session = Timer.SESSION.at(self.group_id, beat.member_id, due_ms)
        return Decision(records=records, timers=(session,))

    def _answer(self, beat: Heartbeat, outcome: Outcome) -> ConsumerGroupHeartbeatResponse:
        """Has the assignment if it has changed, or if the member may not know it."""
        before, after = outcome.sender.before.current, outcome.after.current
        is_included = (
            beat.request.member_epoch == SpecialEpoch.JOIN
            or beat.is_full
            or before.assigned != after.assigned
        )
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self.rules.heartbeat_interval_ms,
            assignment=_assignment(after.assigned) if is_included else None,
        )

    def _leaving(self, beat: Heartbeat) -> ConsumerGroupMember:
        request = beat.request
        if request.instance_id is None:
            member = self.saved.member(beat.member_id)
        else:
            member = self.saved.static_member(request.instance_id)
        if member is None:
            raise unknown_member(self.group_id, beat.member_id, request.instance_id)
        if request.instance_id is not None:
            check_instance(member, beat.member_id)
        return member

    def _leave_temporarily(self, beat: Heartbeat) -> Decision:
        member = self._leaving(beat)
        return Decision(
            records=(temporarily_left(member.current),),
            # Until its session expires it may rejoin with another member id.
            timers=(
                self.session_timer(member.saved, beat.now_ms),
                Timer.REBALANCE.off(self.group_id, member.member_id),
            ),
        )

    def _answered(self, beat: Heartbeat, epoch: int, decision: Decision) -> Decision:
        response = ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=beat.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=0,
        )
        return decision._replace(answers=(Answered(beat.ticket, response),))

    # Requests of classic members

    def join(
        self, request: JoinGroupRequest, joiner: Joiner, ticket: Hashable, context: UpdateContext
    ) -> Decision:
        self.topics = context.topics
        return classic_requests.join(self, request, joiner, ticket, context)

    def sync(
        self, request: SyncGroupRequest, ticket: Hashable, now_ms: int, topics: Topics
    ) -> Decision:
        self.topics = topics
        return classic_requests.sync(self, request, ticket, now_ms)

    def classic_heartbeat(
        self, request: HeartbeatRequest, ticket: Hashable, now_ms: int
    ) -> Decision:
        return classic_requests.heartbeat(self, request, ticket, now_ms)

    def leave(
        self, leaving: Sequence[leave_group.Member], ticket: Hashable, now_ms: int
    ) -> Decision:
        return classic_requests.leave(self, leaving, ticket, now_ms)

    # Leaving

    def left(self, member_ids: Collection[str], now_ms: int) -> Decision:
        """Removes these members. The others learn of it by their next heartbeats."""
        saved = self.saved
        self.asked_to_rejoin.difference_update(member_ids)
        rest = [
            ConsumerGroupMember(each, saved.current(name))
            for name, each in saved.members.items()
            if name not in member_ids
        ]
        classic = self.downgrade(rest, now_ms, must_rejoin=True)
        if classic is not None:
            return classic
        records = [each for name in member_ids for each in member_tombstones(self.group_id, name)]
        for regex in dict.fromkeys(saved.members[name].regex for name in member_ids):
            if regex and not saved.subscriptions.is_used(regex, besides=member_ids):
                records.append(RegexTombstone(self.group_id, regex))
        topics = saved.metadata_hash if rest else NO_TOPICS_HASH
        records.append(ConsumerGroupSaved(self.group_id, saved.epoch + 1, topics))
        gone = [timer for name in member_ids for timer in all_off(self.group_id, name)]
        return Decision(records=tuple(records), timers=tuple(gone))

    def downgrade(
        self, members: Sequence[ConsumerGroupMember], now_ms: int, *, must_rejoin: bool
    ) -> Decision | None:
        """Converts the group to a classic one with these members; None if that is not possible."""
        classic = migration.downgrade(
            self.saved, members, self.rules, self.topics, now_ms, must_rejoin=must_rejoin
        )
        if classic is None:
            return None
        return Decision(
            records=(*self.tombstones(), classic),
            timers=tuple(migration.downgrade_timers(classic, self.saved.members, now_ms)),
        )

    # Timers

    def loaded(self, now_ms: int) -> Decision:
        """The log was replayed to its end: session and rebalance timers start again."""
        timers = []
        for member_id, member in self.saved.members.items():
            timers.append(self.session_timer(member, now_ms))
            if self.saved.current(member_id).state == MemberState.UNREVOKED_PARTITIONS:
                due_ms = now_ms + member.rebalance_timeout_ms
                timers.append(Timer.REBALANCE.at(self.group_id, member_id, due_ms))
        return Decision(timers=tuple(timers))

    def timer_expired(self, timer_key: str, now_ms: int) -> Decision:
        """A member has missed a deadline and is removed."""
        kind, _, rest = timer_key.partition("/")
        member_id = rest.removeprefix(f"{self.group_id}/")
        if member_id not in self.saved.members:
            return NOTHING
        if kind == Timer.REBALANCE:
            current = self.saved.current(member_id)
            if current.state != MemberState.UNREVOKED_PARTITIONS:
                return NOTHING
        return self.left((member_id,), now_ms)

    def timers_after(self, outcome: Outcome, now_ms: int) -> Iterator[TimerSet]:
        """The timers that an update sets and cancels."""
        sender, after = outcome.sender, outcome.after
        if sender.replaces is not None:
            yield from all_off(self.group_id, sender.replaces)
        yield self.session_timer(after.saved, now_ms)
        before, current, member_id = sender.before.current, after.current, after.member_id
        waits = MemberState.UNREVOKED_PARTITIONS
        if current.state == waits and (
            before.state != waits or before.revoking != current.revoking
        ):
            due_ms = now_ms + after.saved.rebalance_timeout_ms
            yield Timer.REBALANCE.at(self.group_id, member_id, due_ms)
        elif current.state != waits and before.state == waits:
            yield Timer.REBALANCE.off(self.group_id, member_id)
        if sender.before.is_classic:
            # It has joined again, or no longer uses the classic protocol.
            self.asked_to_rejoin.discard(member_id)
            yield Timer.JOIN.off(self.group_id, member_id)
            yield Timer.SYNC.off(self.group_id, member_id)

    def session_timer(self, member: ConsumerMemberSaved, now_ms: int) -> TimerSet:
        """A classic member has its own session timeout."""
        timeout_ms = self.rules.session_timeout_ms
        if member.classic is not None and member.is_classic:
            timeout_ms = member.classic.session_timeout_ms
        return Timer.SESSION.at(self.group_id, member.member_id, now_ms + timeout_ms)

    # Offsets

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        version: int,
        *,
        is_transactional: bool = False,
    ) -> CommitCheck:
        """See `Group`."""
        # Admin tools may change the offsets of an empty group.
        if generation < 0 and self.is_empty:
            return accept_any
        is_anonymous = (generation, member_id, instance_id) == (_NO_EPOCH, "", None)
        if is_transactional and is_anonymous:
            # Its producer does not know the consumer's member (KIP-447).
            return accept_any
        member = self.saved.member(member_id)
        if member is None:
            raise unknown_member(self.group_id, member_id)
        return offset_checks.commit_check(
            member, generation, version, is_transactional=is_transactional
        )

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """See `Group`."""
        if not member_id and member_epoch <= _NO_EPOCH:
            return
        member = self.saved.member(member_id or "")
        if member is None:
            raise unknown_member(self.group_id, member_id or "")
        offset_checks.check_fetch(member, member_epoch)

    def committed(self, member_id: str, now_ms: int) -> tuple[TimerSet, ...]:  # noqa: ARG002 - see Group
        """Only heartbeats renew a session."""
        return ()

    def check_offset_delete(self) -> None:
        """Always allowed: `is_subscribed_to` protects subscribed topics."""

    def check_delete(self) -> None:
        """NON_EMPTY_GROUP if it has members."""
        if not self.is_empty:
            raise PeerError(ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} is not empty.")

    def offset_expiry_starts_ms(self, commit_ms: int) -> int:
        """From the commit on, as in Kafka; offsets of subscribed topics do not expire."""
        return commit_ms

    # Durable state

    def replay(self, record: Record) -> None:
        """Applies a record of the group."""
        self.saved.replay(record)

    def tombstones(self) -> tuple[Record, ...]:
        """The tombstones of all records of the group, except its offsets."""
        group_id = self.group_id
        return (
            *(each for name in self.saved.members for each in member_tombstones(group_id, name)),
            *(RegexTombstone(group_id, regex) for regex in self.saved.regexes),
            TargetEpochTombstone(group_id),
            ConsumerGroupTombstone(group_id),
        )


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in partitions.items()
        )
    )
