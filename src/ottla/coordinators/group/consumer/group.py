"""A group of the consumer protocol (KIP-848): decides by heartbeats and timers. Pure.

What must last is in `SavedGroup` and changes by `replay` alone. Some of its members may speak the
classic protocol; once all that are left do, the group becomes a classic one.
"""

from collections.abc import Collection, Hashable, Iterator, Sequence

from ottla.coordinators.group import migration
from ottla.coordinators.group.classic.join import Joiner
from ottla.coordinators.group.consumer import classic_requests, offset_checks
from ottla.coordinators.group.consumer.heartbeat import decide_arrival, decide_heartbeat
from ottla.coordinators.group.consumer.heartbeat_request import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    check_instance,
    member_forgotten,
    stepped_aside,
    unknown_member,
)
from ottla.coordinators.group.consumer.member_update import Checked, Moment, Outcome
from ottla.coordinators.group.consumer.reconciliation import MemberState
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.saved_group import SavedGroup
from ottla.coordinators.group.consumer.states import STATES, ConsumerGroupState, Standing
from ottla.coordinators.group.consumer.timers import Timer, all_off
from ottla.coordinators.group.consumer.topics import NO_TOPICS_HASH, NoTopics, Topics
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import GroupType
from ottla.coordinators.group.offsets import CommitCheck, anything
from ottla.coordinators.group.records import (
    ConsumerGroupForgotten,
    ConsumerGroupSaved,
    ConsumerMemberSaved,
    CurrentAssignmentSaved,
    Partitions,
    Record,
    RegexForgotten,
    TargetEpochForgotten,
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
    """See the module. It is a `Group`; `classic_requests` shares its attributes."""

    group_type = GroupType.CONSUMER
    protocol_type = "consumer"

    def __init__(
        self, group_id: str, rules: ConsumerRules | None = None, topics: Topics | None = None
    ) -> None:
        self.saved = SavedGroup(group_id)
        # Both are replaced when somebody asks who knows them as they are now.
        self.rules = rules or ConsumerRules()
        self.topics = topics or NoTopics()
        self.checked = Checked()
        # Classic members that were told to join again, and have a time to do so.
        self.summoned: set[str] = set()

    # What it is

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
        """As ListGroups and ConsumerGroupDescribe call it."""
        if self.is_empty:
            return ConsumerGroupState.EMPTY.value
        is_target_due = self.saved.epoch > self.saved.target_epoch
        is_settled = all(self.is_settled(self.saved.current(each)) for each in self.saved.members)
        return STATES[Standing(is_target_due, is_settled)].value

    def is_settled(self, current: CurrentAssignmentSaved) -> bool:
        """Whether a member that stands there owns all that it is to own."""
        return (current.state, current.epoch) == (MemberState.STABLE, self.saved.target_epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        subscriptions = self.saved.subscriptions
        return any(topic in subscriptions.names(each) for each in self.saved.members.values())

    # Heartbeats

    def heartbeat(self, beat: Heartbeat) -> Decision:
        """Takes what a member says, answers where it stands. A PeerError, and nothing changed."""
        self.topics = beat.topics
        epoch = beat.request.member_epoch
        if epoch == SpecialEpoch.LEAVE:
            member = self._leaving(beat)
            return self._answered(beat, epoch, self.left((member.member_id,), beat.now_ms))
        if epoch == SpecialEpoch.STEP_ASIDE:
            return self._answered(beat, epoch, self._stepped_aside(beat))
        outcome = decide_heartbeat(self.saved, self.checked, self.rules, beat)
        return Decision(
            records=outcome.records,
            answers=(Answered(beat.ticket, self._answer(beat, outcome)),),
            timers=tuple(self.timers_after(outcome, beat.now_ms)),
        )

    def arrive(self, beat: Heartbeat) -> Decision:
        """Takes down who joins, without an answer: its heartbeat is still to be decided.

        Of many that arrive before that, the first to be decided brings a target for all.
        """
        self.topics = beat.topics
        records = decide_arrival(self.saved, self.checked, self.rules, beat)
        if not records:
            return NOTHING
        due_ms = beat.now_ms + self.rules.session_timeout_ms
        session = Timer.SESSION.at(self.group_id, beat.member_id, due_ms)
        return Decision(records=records, timers=(session,))

    def _answer(self, beat: Heartbeat, outcome: Outcome) -> ConsumerGroupHeartbeatResponse:
        """The assignment is told when it changed, or to one who may not know it."""
        before, after = outcome.arrival.before.current, outcome.after.current
        is_told = (
            beat.request.member_epoch == SpecialEpoch.JOIN
            or beat.is_full
            or before.assigned != after.assigned
        )
        return ConsumerGroupHeartbeatResponse(
            error_code=ErrorCode.NONE,
            member_id=after.member_id,
            member_epoch=after.epoch,
            heartbeat_interval_ms=self.rules.heartbeat_interval_ms,
            assignment=_assignment(after.assigned) if is_told else None,
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

    def _stepped_aside(self, beat: Heartbeat) -> Decision:
        member = self._leaving(beat)
        return Decision(
            records=(stepped_aside(member.current),),
            # Until its session ends it may come back under another name.
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

    # Requests of members that speak the classic protocol

    def join(
        self, request: JoinGroupRequest, joiner: Joiner, ticket: Hashable, at: Moment
    ) -> Decision:
        self.topics = at.topics
        return classic_requests.join(self, request, joiner, ticket, at)

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
        """Without these members. The others learn of it with their next heartbeats."""
        saved = self.saved
        self.summoned.difference_update(member_ids)
        rest = [
            ConsumerGroupMember(each, saved.current(name))
            for name, each in saved.members.items()
            if name not in member_ids
        ]
        classic = self.moved_down(rest, now_ms, must_rejoin=True)
        if classic is not None:
            return classic
        records = [each for name in member_ids for each in member_forgotten(self.group_id, name)]
        for regex in dict.fromkeys(saved.members[name].regex for name in member_ids):
            if regex and not saved.subscriptions.is_used(regex, besides=member_ids):
                records.append(RegexForgotten(self.group_id, regex))
        topics = saved.metadata_hash if rest else NO_TOPICS_HASH
        records.append(ConsumerGroupSaved(self.group_id, saved.epoch + 1, topics))
        gone = [timer for name in member_ids for timer in all_off(self.group_id, name)]
        return Decision(records=tuple(records), timers=tuple(gone))

    def moved_down(
        self, members: Sequence[ConsumerGroupMember], now_ms: int, *, must_rejoin: bool
    ) -> Decision | None:
        """These members as a classic group, if all of them speak its protocol and it may be."""
        classic = migration.moved_down(
            self.saved, members, self.rules, self.topics, now_ms, must_rejoin=must_rejoin
        )
        if classic is None:
            return None
        return Decision(
            records=(*self.forgotten(), classic),
            timers=tuple(migration.timers_moved_down(classic, self.saved.members, now_ms)),
        )

    # Timers

    def loaded(self, now_ms: int) -> Decision:
        """It was replayed to its end: its members' sessions begin anew, and so do their delays."""
        timers = []
        for member_id, member in self.saved.members.items():
            timers.append(self.session_timer(member, now_ms))
            if self.saved.current(member_id).state == MemberState.UNREVOKED_PARTITIONS:
                due_ms = now_ms + member.rebalance_timeout_ms
                timers.append(Timer.REBALANCE.at(self.group_id, member_id, due_ms))
        return Decision(timers=tuple(timers))

    def expired(self, timer_key: str, now_ms: int) -> Decision:
        """A member was silent, or did not do what it was told, for too long: it is out."""
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
        """What a statement sets and what it ends."""
        arrival, after = outcome.arrival, outcome.after
        if arrival.replaces is not None:
            yield from all_off(self.group_id, arrival.replaces)
        yield self.session_timer(after.saved, now_ms)
        before, current, member_id = arrival.before.current, after.current, after.member_id
        waits = MemberState.UNREVOKED_PARTITIONS
        if current.state == waits and (
            before.state != waits or before.revoking != current.revoking
        ):
            due_ms = now_ms + after.saved.rebalance_timeout_ms
            yield Timer.REBALANCE.at(self.group_id, member_id, due_ms)
        elif current.state != waits and before.state == waits:
            yield Timer.REBALANCE.off(self.group_id, member_id)
        if arrival.before.is_classic:
            # It has joined again, or needs to do neither any more.
            self.summoned.discard(member_id)
            yield Timer.JOIN.off(self.group_id, member_id)
            yield Timer.SYNC.off(self.group_id, member_id)

    def session_timer(self, member: ConsumerMemberSaved, now_ms: int) -> TimerSet:
        """Who speaks the classic protocol says itself how long it may be silent."""
        timeout_ms = self.rules.session_timeout_ms
        if member.classic is not None and member.is_classic:
            timeout_ms = member.classic.session_timeout_ms
        return Timer.SESSION.at(self.group_id, member.member_id, now_ms + timeout_ms)

    # Offsets

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,  # noqa: ARG002 - the epoch tells an instance's names apart
        generation: int,
        version: int,
    ) -> CommitCheck:
        """What this member may commit by this version of OffsetCommit. PeerError: nothing."""
        # Nobody is there to contradict: tools may move the offsets of an empty group.
        if generation < 0 and self.is_empty:
            return anything
        member = self.saved.member(member_id)
        if member is None:
            raise unknown_member(self.group_id, member_id)
        return offset_checks.commit_check(member, generation, version)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether this member may ask for committed offsets; None and -1 come from anybody."""
        if not member_id and member_epoch <= _NO_EPOCH:
            return
        member = self.saved.member(member_id or "")
        if member is None:
            raise unknown_member(self.group_id, member_id or "")
        offset_checks.check_fetch(member, member_epoch)

    def committed(self, member_id: str, now_ms: int) -> tuple[TimerSet, ...]:  # noqa: ARG002 - see Group
        """Heartbeats alone keep a member alive."""
        return ()

    def check_offset_delete(self) -> None:
        """Always: only topics that somebody is subscribed to are spared."""

    def check_delete(self) -> None:
        """NON_EMPTY_GROUP if it has members."""
        if not self.is_empty:
            raise PeerError(ErrorCode.NON_EMPTY_GROUP, f"Group {self.group_id} is not empty.")

    def offset_expiry_starts_ms(self, commit_ms: int) -> int:
        """From the commit on, as in Kafka: what a member subscribes to is spared."""
        return commit_ms

    # What is saved

    def replay(self, record: Record) -> None:
        """Takes what was saved of it."""
        self.saved.replay(record)

    def forgotten(self) -> tuple[Record, ...]:
        """The tombstones of everything that was saved of it, offsets apart."""
        group_id = self.group_id
        return (
            *(each for name in self.saved.members for each in member_forgotten(group_id, name)),
            *(RegexForgotten(group_id, regex) for regex in self.saved.regexes),
            TargetEpochForgotten(group_id),
            ConsumerGroupForgotten(group_id),
        )


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in partitions.items()
        )
    )
