"""A member's heartbeat, decided: who it is, what the group becomes by it, its own next step. Pure.

Three things happen in turn, each only if there is cause. What the member says is saved, and a
change of what the group subscribes to, or of those topics, raises the group's epoch. A group whose
epoch is ahead of its target's decides a new target. And the member takes a step towards its own.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.coordinators.group.consumer.member import (
    Member,
    as_it_says,
    member_forgotten,
    new_member,
    subscribes_alike,
    successor,
)
from ottla.coordinators.group.consumer.reconcile import (
    Target,
    may_step,
    next_assignment,
    only_topics,
)
from ottla.coordinators.group.consumer.requests import Heartbeat, SpecialEpoch
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.state import SavedState
from ottla.coordinators.group.consumer.subscriptions import RegexCheck, Subscriptions
from ottla.coordinators.group.consumer.targets import decide_targets
from ottla.coordinators.group.consumer.topics import shapes, shapes_hash
from ottla.coordinators.group.records import (
    ConsumerGroupSaved,
    CurrentAssignmentSaved,
    Partitions,
    Record,
    RegexForgotten,
    RegexResolved,
    TargetAssignmentSaved,
    TargetEpochSaved,
)
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.primitives import Uuid


class Checked:
    """What was looked at and found unchanged, so that not every heartbeat looks again.

    It need not last, and it says nothing about what is written but not yet replayed.
    """

    def __init__(self) -> None:
        # The version of the metadata at which the group's topics were as its hash says.
        self.version: int | None = None
        self.regexes: dict[str, RegexCheck] = {}


class Arrival(NamedTuple):
    """The member that a heartbeat comes from, as it was."""

    before: Member
    is_new: bool = False
    # The name that a static member had until now.
    replaces: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Under which the group may know it."""
        own = self.before.member_id
        return (own,) if self.replaces is None else (own, self.replaces)


class Outcome(NamedTuple):
    """What a heartbeat comes to."""

    records: tuple[Record, ...]
    arrival: Arrival
    after: Member


def decide_heartbeat(
    state: SavedState, checked: Checked, rules: ConsumerRules, beat: Heartbeat
) -> Outcome:
    """For every heartbeat but those that say goodbye. A PeerError, and nothing is to change."""
    arrival = find_member(state, rules, beat)
    return _Deciding(state, checked, rules, beat, arrival).outcome()


def find_member(state: SavedState, rules: ConsumerRules, beat: Heartbeat) -> Arrival:
    """Whose heartbeat it is. Refused: who is unknown, out of date, or one too many."""
    request = beat.request
    known = _known_member(state, beat)
    if known is not None and known.member_id == beat.member_id:
        known.check_epoch(request.member_epoch, beat.owned)
        return Arrival(known)
    if known is not None:
        _check_released(known, beat.member_id)
        return Arrival(successor(known, beat.member_id), replaces=known.member_id)
    if request.member_epoch != SpecialEpoch.JOIN:
        raise unknown_member(state.group_id, beat.member_id, request.instance_id)
    if len(state.members) >= rules.size_max:
        raise PeerError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {rules.size_max} members.",
        )
    return Arrival(new_member(state.group_id, beat.member_id), is_new=True)


def _known_member(state: SavedState, beat: Heartbeat) -> Member | None:
    """Of a static member the one with its instance, whatever it is called."""
    request = beat.request
    if request.instance_id is None:
        return state.member(beat.member_id)
    known = state.static_member(request.instance_id)
    if known is not None and request.member_epoch != SpecialEpoch.JOIN:
        check_instance(known, beat.member_id)
    return known


def check_instance(member: Member, member_id: str) -> None:
    """FENCED_INSTANCE_ID if a static member's instance is somebody else now."""
    if member.member_id != member_id:
        raise PeerError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {member.saved.instance_id} was fenced by"
            f" member {member.member_id}.",
        )


def _check_released(member: Member, member_id: str) -> None:
    if not member.has_stepped_aside:
        raise PeerError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {member.saved.instance_id} cannot join the"
            f" group because the instance id is owned by {member.member_id} member.",
        )


def unknown_member(group_id: str, member_id: str, instance_id: str | None = None) -> PeerError:
    """What is answered to somebody that the group does not have."""
    message = f"Member {member_id} is not a member of group {group_id}."
    if instance_id is not None:
        message = f"Instance id {instance_id} is unknown."
    return PeerError(ErrorCode.UNKNOWN_MEMBER_ID, message)


class _Deciding:
    """One heartbeat while it is decided. The state stays as it is."""

    def __init__(
        self,
        state: SavedState,
        checked: Checked,
        rules: ConsumerRules,
        beat: Heartbeat,
        arrival: Arrival,
    ) -> None:
        self._state = state
        self._checked = checked
        self._rules = rules
        self._beat = beat
        self._arrival = arrival
        self._saved = as_it_says(arrival.before.saved, beat)
        self._subscription_changed = not subscribes_alike(arrival.before.saved, self._saved)
        self._records: list[Record] = []

    def outcome(self) -> Outcome:
        # First of all, since a pattern may be refused.
        resolved = self._resolved_regexes()
        if self._changes_nothing(resolved):
            subscriptions = self._state.subscriptions
            target = self._state.target(self._saved.member_id)
        else:
            self._save_member()
            subscriptions = self._save_regexes(resolved)
            epoch = self._save_epoch(subscriptions, has_new_topics=bool(resolved))
            target = self._save_targets(subscriptions, epoch)
        after = Member(self._saved, self._step(subscriptions, target))
        if self._arrival.is_new or after.current != self._arrival.before.current:
            self._records.append(after.current)
        return Outcome(tuple(self._records), self._arrival, after)

    def _changes_nothing(self, resolved: Mapping[str, RegexResolved]) -> bool:
        """Whether the group stays as it is: so it is with nearly all heartbeats."""
        arrival, state = self._arrival, self._state
        return (
            not arrival.is_new
            and arrival.replaces is None
            and self._saved == arrival.before.saved
            and not resolved
            and state.epoch == state.target_epoch
            and self._checked.version == self._beat.topics.version
        )

    # What the member says

    def _save_member(self) -> None:
        arrival, group_id = self._arrival, self._state.group_id
        if arrival.replaces is not None:
            self._records += member_forgotten(group_id, arrival.replaces)
        if arrival.is_new or arrival.replaces is not None or self._saved != arrival.before.saved:
            self._records.append(self._saved)
        if arrival.replaces is not None:
            inherited = self._state.target(arrival.replaces).partitions
            self._records.append(TargetAssignmentSaved(group_id, self._saved.member_id, inherited))

    def _resolved_regexes(self) -> dict[str, RegexResolved]:
        """Patterns that are new, or match other topics than they did."""
        known = self._state.regexes
        topics, now_ms = self._beat.topics, self._beat.now_ms
        asked = {self._saved.regex} if self._saved.regex else set()
        found = {}
        for regex in sorted(asked | known.keys()):
            before = known.get(regex)
            if before is not None and not self._last_check(before).is_due(topics, now_ms):
                continue
            names = self._beat.match_topics(regex, topics.names)
            if before is not None and before.topics == names:
                self._checked.regexes[regex] = RegexCheck(topics.version, now_ms)
            else:
                found[regex] = RegexResolved(
                    self._state.group_id, regex, names, topics.version, now_ms
                )
        return found

    def _last_check(self, resolved: RegexResolved) -> RegexCheck:
        saved = RegexCheck(resolved.version, resolved.resolved_ms)
        return self._checked.regexes.get(resolved.regex, saved)

    def _save_regexes(self, resolved: Mapping[str, RegexResolved]) -> Subscriptions:
        """The group's subscriptions, as they are from now on."""
        state = self._state
        members = dict(state.members)
        for name in self._arrival.names:
            members.pop(name, None)
        members[self._saved.member_id] = self._saved
        after = Subscriptions(members, {**state.regexes, **resolved})
        gone = [regex for regex in after.regexes if not after.is_used(regex, besides=())]
        for regex in resolved:
            if regex not in gone:
                self._checked.regexes.pop(regex, None)
                self._records.append(resolved[regex])
        self._records += [RegexForgotten(state.group_id, regex) for regex in gone]
        return after

    # What the group becomes

    def _save_epoch(self, subscriptions: Subscriptions, *, has_new_topics: bool) -> int:
        """The group's epoch from now on."""
        state, topics = self._state, self._beat.topics
        rises = self._subscription_changed or has_new_topics
        is_behind = state.epoch > state.target_epoch
        if not rises and not is_behind and self._checked.version == topics.version:
            return state.epoch
        found = shapes_hash(shapes(subscriptions.all_names(), topics))
        if not rises and found == state.metadata_hash:
            self._checked.version = topics.version
            return state.epoch
        # A target that is due anyway is decided with the topics as they are by then.
        epoch = state.epoch + (rises or not is_behind)
        self._records.append(ConsumerGroupSaved(state.group_id, epoch, found))
        return epoch

    def _save_targets(self, subscriptions: Subscriptions, epoch: int) -> Target:
        """The member's own target from now on."""
        before = {name: self._target_before(name) for name in subscriptions.members}
        member_id = self._saved.member_id
        if epoch <= self._state.target_epoch or not self._may_assign():
            return Target(self._state.target_epoch, before[member_id])
        after = decide_targets(subscriptions, before, self._beat.topics, self._rules.assignors)
        group_id = self._state.group_id
        for name, partitions in after.items():
            if partitions != before[name]:
                self._records.append(TargetAssignmentSaved(group_id, name, partitions))
        self._records.append(TargetEpochSaved(group_id, epoch, self._beat.now_ms))
        return Target(epoch, after[member_id])

    def _target_before(self, member_id: str) -> Partitions:
        if member_id == self._saved.member_id and self._arrival.replaces is not None:
            return self._state.target(self._arrival.replaces).partitions
        return self._state.target(member_id).partitions

    def _may_assign(self) -> bool:
        assigned_ms = self._state.assigned_ms
        if assigned_ms is None:
            return True
        passed_ms = self._beat.now_ms - assigned_ms
        # A clock that was set back must not keep a group waiting.
        return passed_ms < 0 or passed_ms >= self._rules.assignment_interval_ms

    # The member's next step

    def _step(self, subscriptions: Subscriptions, target: Target) -> CurrentAssignmentSaved:
        current, owned = self._arrival.before.current, self._beat.owned
        if not may_step(current, target, owned, must_shrink=self._subscription_changed):
            return current
        # A topic that the member no longer wants is not given to it, even if the target is older.
        wanted = subscriptions.topic_ids(self._saved, self._beat.topics)
        wanted_target = Target(target.epoch, only_topics(target.partitions, wanted))
        return next_assignment(current, wanted_target, owned, self._is_taken)

    def _is_taken(self, topic_id: Uuid, index: int) -> bool:
        owner = self._state.owner(topic_id, index)
        return owner is not None and owner not in self._arrival.names
