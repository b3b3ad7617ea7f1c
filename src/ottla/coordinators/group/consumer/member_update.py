"""Decides on a member's update: the change of the group, and the member's next step. Pure.

Three things happen in turn, each only if needed. The member is saved, and a change of the group's
subscriptions, or of the subscribed topics, raises the group's epoch. A group whose epoch is ahead
of its target's computes a new target. The member takes a step towards its target assignment.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.coordinators.group.consumer.heartbeat_request import SUBSCRIPTION_CHARACTERS_MAX
from ottla.coordinators.group.consumer.member import (
    ConsumerGroupMember,
    has_same_subscription,
    member_tombstones,
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
    RegexResolved,
    RegexTombstone,
    TargetAssignmentSaved,
    TargetEpochSaved,
)
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.primitives import Uuid


class UpdateContext(NamedTuple):
    """The time of a decision, and the topics at that time."""

    now_ms: int
    topics: Topics
    match_topics: TopicMatcher


class MemberUpdate(NamedTuple):
    """A heartbeat or a classic join of a member."""

    # The member and its subscription after the update.
    saved: ConsumerMemberSaved
    # The partitions that it reports to own; None if it does not report them.
    owned: Partitions | None
    context: UpdateContext


class SubscriptionChecks:
    """Checks of topics and patterns that found no change, so that not every heartbeat repeats them.

    They are not stored, and do not include records that are decided but not yet replayed.
    """

    def __init__(self) -> None:
        # The metadata version at which the group's topics last matched its hash.
        self.version: int | None = None
        self.regexes: dict[str, RegexCheck] = {}


class Sender(NamedTuple):
    """The member that sends an update, as it was before."""

    before: ConsumerGroupMember
    is_new: bool = False
    # The previous member id of a static member.
    replaces: str | None = None

    @property
    def member_ids(self) -> tuple[str, ...]:
        """The ids of the member in the group's records."""
        own = self.before.member_id
        return (own,) if self.replaces is None else (own, self.replaces)


class Outcome(NamedTuple):
    """The records of an update, and the member after it."""

    records: tuple[Record, ...]
    sender: Sender
    after: ConsumerGroupMember


def is_assignment_due(assigned_ms: int | None, rules: ConsumerRules, now_ms: int) -> bool:
    """Whether the interval since the last assignment has passed."""
    if assigned_ms is None:
        return True
    passed_ms = now_ms - assigned_ms
    # A clock that was set back must not delay the assignment.
    return passed_ms < 0 or passed_ms >= rules.assignment_interval_ms


class UpdateDecider:
    """Decides on one update. It does not change the state."""

    def __init__(
        self,
        state: SavedGroup,
        checks: SubscriptionChecks,
        rules: ConsumerRules,
        sender: Sender,
        update: MemberUpdate,
    ) -> None:
        self._state = state
        self._checks = checks
        self._rules = rules
        self._sender = sender
        self._saved, self._owned, self._context = update
        self._subscription_changed = not has_same_subscription(sender.before.saved, self._saved)
        self._records: list[Record] = []

    def outcome(self) -> Outcome:
        # First, because a pattern may be refused.
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
        if self._sender.is_new or after.current != self._sender.before.current:
            self._records.append(after.current)
        return Outcome(tuple(self._records), self._sender, after)

    def new_member_records(self) -> tuple[Record, ...]:
        """The first of the three things only: a new member without an assignment."""
        resolved = self._resolved_regexes()
        self._save_member()
        subscriptions = self._save_regexes(resolved)
        self._has_room(subscriptions)
        self._save_epoch(subscriptions, has_new_topics=bool(resolved))
        return tuple(self._records)

    def _changes_nothing(self, resolved: Mapping[str, RegexResolved]) -> bool:
        """Whether the group stays as it is, as with nearly all heartbeats."""
        sender, state = self._sender, self._state
        return (
            not sender.is_new
            and sender.replaces is None
            and self._saved == sender.before.saved
            and not resolved
            and state.epoch == state.target_epoch
            and self._checks.version == self._context.topics.version
        )

    # The member and its subscription

    def _save_member(self) -> None:
        sender, group_id = self._sender, self._state.group_id
        if sender.replaces is not None:
            self._records += member_tombstones(group_id, sender.replaces)
        if sender.is_new or sender.replaces is not None or self._saved != sender.before.saved:
            self._records.append(self._saved)
        if sender.replaces is not None:
            inherited = self._state.target(sender.replaces).partitions
            self._records.append(TargetAssignmentSaved(group_id, self._saved.member_id, inherited))

    def _resolved_regexes(self) -> dict[str, RegexResolved]:
        """Patterns that are new, or match other topics than before."""
        known = self._state.regexes
        topics, now_ms = self._context.topics, self._context.now_ms
        own = {self._saved.regex} if self._saved.regex else set()
        found = {}
        characters = 0
        for regex in sorted(own | known.keys()):
            before = known.get(regex)
            if before is not None and (
                not self._last_check(before).is_due(topics, now_ms)
                # All of them go into one batch; the next heartbeat matches the rest.
                or characters > SUBSCRIPTION_CHARACTERS_MAX
            ):
                continue
            names = self._matched(regex, before)
            characters += sum(map(len, names))
            if before is not None and before.topics == names:
                self._checks.regexes[regex] = RegexCheck(topics.version, now_ms)
            else:
                found[regex] = RegexResolved(
                    self._state.group_id, regex, names, topics.version, now_ms
                )
        return found

    def _matched(self, regex: str, before: RegexResolved | None) -> tuple[str, ...]:
        """The topics of a pattern; the previous ones if it now matches too many.

        INVALID_REQUEST if a new pattern matches too many.
        """
        names = self._context.match_topics(regex, self._context.topics.names)
        if sum(map(len, names)) <= SUBSCRIPTION_CHARACTERS_MAX:
            return names
        if before is None:
            raise PeerError(ErrorCode.INVALID_REQUEST, "SubscribedTopicRegex has too many topics.")
        return before.topics

    def _last_check(self, resolved: RegexResolved) -> RegexCheck:
        saved = RegexCheck(resolved.version, resolved.resolved_ms)
        return self._checks.regexes.get(resolved.regex, saved)

    def _save_regexes(self, resolved: Mapping[str, RegexResolved]) -> Subscriptions:
        """The group's subscriptions after the update."""
        state = self._state
        members = dict(state.members)
        for name in self._sender.member_ids:
            members.pop(name, None)
        members[self._saved.member_id] = self._saved
        after = Subscriptions(members, {**state.regexes, **resolved})
        gone = [regex for regex in after.regexes if not after.is_used(regex, besides=())]
        for regex in resolved:
            if regex not in gone:
                self._checks.regexes.pop(regex, None)
                self._records.append(resolved[regex])
        self._records += [RegexTombstone(state.group_id, regex) for regex in gone]
        return after

    # The group's epoch and target

    def _save_epoch(self, subscriptions: Subscriptions, *, has_new_topics: bool) -> int:
        """The group's epoch after the update."""
        state, topics = self._state, self._context.topics
        rises = self._subscription_changed or has_new_topics
        is_behind = state.epoch > state.target_epoch
        if not rises and not is_behind and self._checks.version == topics.version:
            return state.epoch
        found = shapes_hash(shapes(subscriptions.all_names(), topics))
        if not rises and found == state.metadata_hash:
            self._checks.version = topics.version
            return state.epoch
        # A target that is already due will be computed with the newest topics.
        epoch = state.epoch + (rises or not is_behind)
        self._records.append(ConsumerGroupSaved(state.group_id, epoch, found))
        return epoch

    def _has_room(self, subscriptions: Subscriptions) -> bool:
        """Whether a target of all members fits one batch.

        GROUP_MAX_SIZE_REACHED if it does not because of this member's new or larger subscription.
        """
        state, topics, bytes_max = self._state, self._context.topics, self._rules.target_bytes_max
        size = target_bytes_at_most(state.group_id, subscriptions, topics)
        if size <= bytes_max:
            return True
        wants_more = self._sender.is_new or self._subscription_changed
        if wants_more and size > target_bytes_at_most(state.group_id, state.subscriptions, topics):
            raise PeerError(
                ErrorCode.GROUP_MAX_SIZE_REACHED,
                f"What the members of the consumer group would be assigned takes {size} bytes,"
                f" at most {bytes_max} are possible.",
            )
        return False

    def _save_targets(self, subscriptions: Subscriptions, epoch: int, *, has_room: bool) -> Target:
        """The member's target after the update; the old one if a new one does not fit one batch."""
        state, member_id = self._state, self._saved.member_id
        own = state.target(self._sender.replaces or member_id)
        is_due = is_assignment_due(state.assigned_ms, self._rules, self._context.now_ms)
        if epoch <= state.target_epoch or not is_due or not has_room:
            return own
        before = state.targets(subscriptions.members)
        before[member_id] = own.partitions
        after = decide_targets(subscriptions, before, self._context.topics, self._rules.assignors)
        for name, partitions in after.items():
            if partitions is not before[name] and partitions != before[name]:
                self._records.append(TargetAssignmentSaved(state.group_id, name, partitions))
        self._records.append(TargetEpochSaved(state.group_id, epoch, self._context.now_ms))
        return Target(epoch, after[member_id])

    # The member's next step

    def _step(self, subscriptions: Subscriptions, target: Target) -> CurrentAssignmentSaved:
        current, owned = self._sender.before.current, self._owned
        if not may_step(current, target, owned, must_shrink=self._subscription_changed):
            return current
        # An older target may have topics that the member has unsubscribed from.
        wanted = subscriptions.topic_ids(self._saved, self._context.topics)
        wanted_target = Target(target.epoch, only_topics(target.partitions, wanted))
        return next_assignment(current, wanted_target, owned, self._is_taken)

    def _is_taken(self, topic_id: Uuid, index: int) -> bool:
        owner = self._state.owner(topic_id, index)
        return owner is not None and owner not in self._sender.member_ids
