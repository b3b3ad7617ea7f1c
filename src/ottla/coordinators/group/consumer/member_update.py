"""What a member says, decided: what the group becomes by it, and the member's own next step. Pure.

Three things happen in turn, each only if there is cause. What the member says is saved, and a
change of what the group subscribes to, or of those topics, raises the group's epoch. A group whose
epoch is ahead of its target's decides a new target. And the member takes a step towards its own.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.coordinators.group.consumer.heartbeat_request import SUBSCRIPTION_CHARACTERS_MAX
from ottla.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    member_forgotten,
    subscribes_alike,
)
from ottla.coordinators.group.consumer.reconciliation import (
    Target,
    may_step,
    next_assignment,
    only_topics,
)
from ottla.coordinators.group.consumer.regex import TopicMatcher
from ottla.coordinators.group.consumer.rules import ConsumerRules
from ottla.coordinators.group.consumer.saved_group import SavedGroup
from ottla.coordinators.group.consumer.subscriptions import RegexCheck, Subscriptions
from ottla.coordinators.group.consumer.target_size import target_bytes_at_most
from ottla.coordinators.group.consumer.targets import decide_targets
from ottla.coordinators.group.consumer.topics import Topics, shapes, shapes_hash
from ottla.coordinators.group.records import (
    ConsumerGroupSaved,
    ConsumerMemberSaved,
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


class Moment(NamedTuple):
    """When something is decided, and the topics as they are then."""

    now_ms: int
    topics: Topics
    match_topics: TopicMatcher


class Statement(NamedTuple):
    """What a member says, by whichever protocol."""

    # Who it is and what it subscribes to, from now on.
    saved: ConsumerMemberSaved
    # What it reports to own; None if it does not say.
    owned: Partitions | None
    at: Moment


class Checked:
    """What was looked at and found unchanged, so that not every heartbeat looks again.

    It need not last, and it says nothing about what is written but not yet replayed.
    """

    def __init__(self) -> None:
        # The version of the metadata at which the group's topics were as its hash says.
        self.version: int | None = None
        self.regexes: dict[str, RegexCheck] = {}


class Arrival(NamedTuple):
    """The member that a statement comes from, as it was."""

    before: ConsumerGroupMember
    is_new: bool = False
    # The name that a static member had until now.
    replaces: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Under which the group may know it."""
        own = self.before.member_id
        return (own,) if self.replaces is None else (own, self.replaces)


class Outcome(NamedTuple):
    """What a statement comes to."""

    records: tuple[Record, ...]
    arrival: Arrival
    after: ConsumerGroupMember


def is_assignment_due(assigned_ms: int | None, rules: ConsumerRules, now_ms: int) -> bool:
    """Whether partitions may be shared out again already."""
    if assigned_ms is None:
        return True
    passed_ms = now_ms - assigned_ms
    # A clock that was set back must not keep a group waiting.
    return passed_ms < 0 or passed_ms >= rules.assignment_interval_ms


class Deciding:
    """One statement while it is decided. The state stays as it is."""

    def __init__(
        self,
        state: SavedGroup,
        checked: Checked,
        rules: ConsumerRules,
        arrival: Arrival,
        said: Statement,
    ) -> None:
        self._state = state
        self._checked = checked
        self._rules = rules
        self._arrival = arrival
        self._saved, self._owned, self._at = said
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
            has_room = self._has_room(subscriptions)
            epoch = self._save_epoch(subscriptions, has_new_topics=bool(resolved))
            target = self._save_targets(subscriptions, epoch, has_room=has_room)
        after = ConsumerGroupMember(self._saved, self._step(subscriptions, target))
        if self._arrival.is_new or after.current != self._arrival.before.current:
            self._records.append(after.current)
        return Outcome(tuple(self._records), self._arrival, after)

    def arrived(self) -> tuple[Record, ...]:
        """The first of the three things alone: who joins is one of the group, and has nothing."""
        resolved = self._resolved_regexes()
        self._save_member()
        subscriptions = self._save_regexes(resolved)
        self._has_room(subscriptions)
        self._save_epoch(subscriptions, has_new_topics=bool(resolved))
        return tuple(self._records)

    def _changes_nothing(self, resolved: Mapping[str, RegexResolved]) -> bool:
        """Whether the group stays as it is: so it is with nearly all heartbeats."""
        arrival, state = self._arrival, self._state
        return (
            not arrival.is_new
            and arrival.replaces is None
            and self._saved == arrival.before.saved
            and not resolved
            and state.epoch == state.target_epoch
            and self._checked.version == self._at.topics.version
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
        topics, now_ms = self._at.topics, self._at.now_ms
        asked = {self._saved.regex} if self._saved.regex else set()
        found = {}
        characters = 0
        for regex in sorted(asked | known.keys()):
            before = known.get(regex)
            if before is not None and (
                not self._last_check(before).is_due(topics, now_ms)
                # One batch takes them all; the rest has its turn with the next heartbeat.
                or characters > SUBSCRIPTION_CHARACTERS_MAX
            ):
                continue
            names = self._matched(regex, before)
            characters += sum(map(len, names))
            if before is not None and before.topics == names:
                self._checked.regexes[regex] = RegexCheck(topics.version, now_ms)
            else:
                found[regex] = RegexResolved(
                    self._state.group_id, regex, names, topics.version, now_ms
                )
        return found

    def _matched(self, regex: str, before: RegexResolved | None) -> tuple[str, ...]:
        """The topics of a pattern: as before, if they have become more than one may subscribe to.

        INVALID_REQUEST if a new one has so many.
        """
        names = self._at.match_topics(regex, self._at.topics.names)
        if sum(map(len, names)) <= SUBSCRIPTION_CHARACTERS_MAX:
            return names
        if before is None:
            raise PeerError(ErrorCode.INVALID_REQUEST, "SubscribedTopicRegex has too many topics.")
        return before.topics

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
        state, topics = self._state, self._at.topics
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

    def _has_room(self, subscriptions: Subscriptions) -> bool:
        """Whether a target of all members can be written.

        GROUP_MAX_SIZE_REACHED if it cannot, and this member wants more than before.
        """
        state, topics, bytes_max = self._state, self._at.topics, self._rules.target_bytes_max
        size = target_bytes_at_most(state.group_id, subscriptions, topics)
        if size <= bytes_max:
            return True
        wants_more = self._arrival.is_new or self._subscription_changed
        if wants_more and size > target_bytes_at_most(state.group_id, state.subscriptions, topics):
            raise PeerError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"What the members of the consumer group would be assigned takes {size} bytes,"
                f" at most {bytes_max} are possible.",
            )
        return False

    def _save_targets(self, subscriptions: Subscriptions, epoch: int, *, has_room: bool) -> Target:
        """The member's own target from now on; the old one if there is no room for another."""
        state, member_id = self._state, self._saved.member_id
        own = state.target(self._arrival.replaces or member_id)
        is_due = is_assignment_due(state.assigned_ms, self._rules, self._at.now_ms)
        if epoch <= state.target_epoch or not is_due or not has_room:
            return own
        before = state.targets(subscriptions.members)
        before[member_id] = own.partitions
        after = decide_targets(subscriptions, before, self._at.topics, self._rules.assignors)
        for name, partitions in after.items():
            if partitions is not before[name] and partitions != before[name]:
                self._records.append(TargetAssignmentSaved(state.group_id, name, partitions))
        self._records.append(TargetEpochSaved(state.group_id, epoch, self._at.now_ms))
        return Target(epoch, after[member_id])

    # The member's next step

    def _step(self, subscriptions: Subscriptions, target: Target) -> CurrentAssignmentSaved:
        current, owned = self._arrival.before.current, self._owned
        if not may_step(current, target, owned, must_shrink=self._subscription_changed):
            return current
        # A topic that the member no longer wants is not given to it, even if the target is older.
        wanted = subscriptions.topic_ids(self._saved, self._at.topics)
        wanted_target = Target(target.epoch, only_topics(target.partitions, wanted))
        return next_assignment(current, wanted_target, owned, self._is_taken)

    def _is_taken(self, topic_id: Uuid, index: int) -> bool:
        owner = self._state.owner(topic_id, index)
        return owner is not None and owner not in self._arrival.names
