"""A group of the consumer protocol (KIP-848): decides by heartbeats and timers. Pure.

What must last is in `SavedState` and changes by `replay` alone.
"""

from ottla.coordinators.decision import NOTHING as NO_DECISION
from ottla.coordinators.decision import Answered, Decision, TimerSet
from ottla.coordinators.group.consumer.heartbeat import (
    Checked,
    Outcome,
    check_instance,
    decide_heartbeat,
    unknown_member,
)
from ottla.coordinators.group.consumer.member import Member, member_forgotten, stepped_aside
from ottla.coordinators.group.consumer.reconcile import MemberState
from ottla.coordinators.group.consumer.requests import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.state import SavedState
from ottla.coordinators.group.consumer.topics import NO_TOPICS_HASH
from ottla.coordinators.group.group import GroupType
from ottla.coordinators.group.records import (
    ConsumerGroupForgotten,
    ConsumerGroupSaved,
    Partitions,
    Record,
    RegexForgotten,
    TargetEpochForgotten,
)
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

# Before it, OffsetCommit had no room for a member's epoch.
_EPOCHS_IN_COMMITS_SINCE = 9
_NO_EPOCH = -1


class ConsumerGroup:
    """See the module. It is a `Group`."""

    group_type = GroupType.CONSUMER
    protocol_type = "consumer"

    def __init__(self, group_id: str, rules: ConsumerRules | None = None) -> None:
        self.saved = SavedState(group_id)
        # Replaced when a setting changes.
        self.rules = rules or ConsumerRules()
        self._checked = Checked()

    # What it is

    @property
    def group_id(self) -> str:
        return self.saved.group_id

    @property
    def is_empty(self) -> bool:
        return not self.saved.members

    @property
    def state_name(self) -> str:
        """As ListGroups and ConsumerGroupDescribe call it."""
        if self.is_empty:
            return "Empty"
        if self.saved.epoch > self.saved.target_epoch:
            return "Assigning"
        return "Stable" if all(map(self._is_settled, self.saved.members)) else "Reconciling"

    def _is_settled(self, member_id: str) -> bool:
        current = self.saved.current(member_id)
        return (current.state, current.epoch) == (MemberState.STABLE, self.saved.target_epoch)

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        subscriptions = self.saved.subscriptions
        return any(topic in subscriptions.names(each) for each in self.saved.members.values())

    # Heartbeats

    def heartbeat(self, beat: Heartbeat) -> Decision:
        """Takes what a member says, answers where it stands. A PeerError, and nothing changed."""
        epoch = beat.request.member_epoch
        if epoch == SpecialEpoch.LEAVE:
            return self._answered(beat, epoch, self._left(self._leaving(beat).member_id))
        if epoch == SpecialEpoch.STEP_ASIDE:
            return self._answered(beat, epoch, self._stepped_aside(beat))
        outcome = decide_heartbeat(self.saved, self._checked, self.rules, beat)
        return Decision(
            records=outcome.records,
            answers=(Answered(beat.ticket, self._answer(beat, outcome)),),
            timers=self._timers(beat.now_ms, outcome),
        )

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

    def _leaving(self, beat: Heartbeat) -> Member:
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
                self._session_timer(member.member_id, beat.now_ms),
                self._rebalance_timer(member.member_id, None),
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

    def _left(self, member_id: str) -> Decision:
        """Without this member. The others learn of it with their next heartbeats."""
        saved = self.saved
        regex = saved.members[member_id].regex
        records = list(member_forgotten(self.group_id, member_id))
        if regex and not saved.subscriptions.is_used(regex, besides=(member_id,)):
            records.append(RegexForgotten(self.group_id, regex))
        is_last = len(saved.members) == 1
        topics = NO_TOPICS_HASH if is_last else saved.metadata_hash
        records.append(ConsumerGroupSaved(self.group_id, saved.epoch + 1, topics))
        return Decision(records=tuple(records), timers=self._no_timers(member_id))

    # Timers

    def loaded(self, now_ms: int) -> Decision:
        """It was replayed to its end: its members' sessions begin anew, and so do their delays."""
        timers = []
        for member_id in self.saved.members:
            timers.append(self._session_timer(member_id, now_ms))
            if self.saved.current(member_id).state == MemberState.UNREVOKED_PARTITIONS:
                timeout_ms = self.saved.members[member_id].rebalance_timeout_ms
                timers.append(self._rebalance_timer(member_id, now_ms + timeout_ms))
        return Decision(timers=tuple(timers))

    def expired(self, timer_key: str, now_ms: int) -> Decision:  # noqa: ARG002 - a Group's face
        """A member was silent, or kept what it had to give up, for too long: it is out."""
        kind, _, rest = timer_key.partition("/")
        member_id = rest.removeprefix(f"{self.group_id}/")
        if member_id not in self.saved.members:
            return NO_DECISION
        if kind == "rebalance":
            current = self.saved.current(member_id)
            if current.state != MemberState.UNREVOKED_PARTITIONS:
                return NO_DECISION
        return self._left(member_id)

    def _timers(self, now_ms: int, outcome: Outcome) -> tuple[TimerSet, ...]:
        before, after = outcome.arrival.before.current, outcome.after.current
        timers = [self._session_timer(after.member_id, now_ms)]
        waits = MemberState.UNREVOKED_PARTITIONS
        if after.state == waits and (before.state != waits or before.revoking != after.revoking):
            timeout_ms = outcome.after.saved.rebalance_timeout_ms
            timers.append(self._rebalance_timer(after.member_id, now_ms + timeout_ms))
        elif after.state != waits and before.state == waits:
            timers.append(self._rebalance_timer(after.member_id, None))
        if outcome.arrival.replaces is not None:
            timers += self._no_timers(outcome.arrival.replaces)
        return tuple(timers)

    def _session_timer(self, member_id: str, now_ms: int) -> TimerSet:
        due_ms = now_ms + self.rules.session_timeout_ms
        return TimerSet(f"session/{self.group_id}/{member_id}", due_ms)

    def _rebalance_timer(self, member_id: str, due_ms: int | None) -> TimerSet:
        return TimerSet(f"rebalance/{self.group_id}/{member_id}", due_ms)

    def _no_timers(self, member_id: str) -> tuple[TimerSet, ...]:
        return (
            TimerSet(f"session/{self.group_id}/{member_id}", None),
            self._rebalance_timer(member_id, None),
        )

    # Offsets

    def check_commit(
        self,
        member_id: str,
        instance_id: str | None,  # noqa: ARG002 - the epoch tells an instance's names apart
        generation: int,
        version: int,
    ) -> None:
        """Whether this member may commit offsets by this version of OffsetCommit."""
        # Nobody is there to contradict: tools may move the offsets of an empty group.
        if generation < 0 and self.is_empty:
            return
        member = self.saved.member(member_id)
        if member is None:
            raise unknown_member(self.group_id, member_id)
        if version < _EPOCHS_IN_COMMITS_SINCE:
            raise PeerError(
                ErrorCode.UNSUPPORTED_VERSION,
                "OffsetCommit version 9 or above must be used by members using the modern"
                " group protocol",
            )
        _check_same_epoch(member, generation)

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Whether this member may ask for committed offsets; None and -1 come from anybody."""
        if not member_id and member_epoch <= _NO_EPOCH:
            return
        member = self.saved.member(member_id or "")
        if member is None:
            raise unknown_member(self.group_id, member_id or "")
        _check_same_epoch(member, member_epoch)

    def committed(self, member_id: str, now_ms: int) -> Decision:  # noqa: ARG002 - a Group's face
        """Heartbeats alone keep a member alive."""
        return NO_DECISION

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


def _check_same_epoch(member: Member, epoch: int) -> None:
    if epoch != member.current.epoch:
        raise PeerError(
            ErrorCode.STALE_MEMBER_EPOCH,
            f"The received member epoch {epoch} does not match the expected member epoch"
            f" {member.current.epoch}.",
        )


def _assignment(partitions: Partitions) -> Assignment:
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=indexes)
            for topic_id, indexes in partitions.items()
        )
    )
