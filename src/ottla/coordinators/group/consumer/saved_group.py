"""The saved state of a consumer group, and the indexes derived from it. Pure.

It changes only by `replay`, for live writes and for loads alike.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ottla.coordinators.group.consumer.member import ConsumerGroupMember, empty_assignment
from ottla.coordinators.group.consumer.reconciliation import NO_PARTITIONS, Target
from ottla.coordinators.group.consumer.subscriptions import Subscriptions
from ottla.coordinators.group.consumer.topics import NO_TOPICS_HASH
from ottla.coordinators.group.records import (
    ConsumerGroupSaved,
    ConsumerGroupTombstone,
    ConsumerMemberSaved,
    ConsumerMemberTombstone,
    CurrentAssignmentSaved,
    CurrentAssignmentTombstone,
    Partitions,
    Record,
    RegexResolved,
    RegexTombstone,
    TargetAssignmentSaved,
    TargetAssignmentTombstone,
    TargetEpochSaved,
    TargetEpochTombstone,
)
from ottla.protocol.primitives import Uuid

# As in Kafka 4.3: the first member with a subscription raises the epoch to 2.
INITIAL_EPOCH = 1


class SavedGroup:
    """See the module. Groups with the same saved state are equal."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = NO_TOPICS_HASH
        self.target_epoch = INITIAL_EPOCH
        # When the target was computed; None if it never was.
        self.assigned_ms: int | None = None
        self.members: dict[str, ConsumerMemberSaved] = {}
        self.regexes: dict[str, RegexResolved] = {}
        self._current: dict[str, CurrentAssignmentSaved] = {}
        self._targets: dict[str, Partitions] = {}
        # Derived from the fields above.
        self._owners: dict[Uuid, dict[int, str]] = {}
        self._instances: dict[str, str] = {}
        self._replays: dict[type, Callable[[Any], None]] = {
            ConsumerGroupSaved: self._replay_group,
            ConsumerGroupTombstone: self._replay_group_gone,
            ConsumerMemberSaved: self._replay_member,
            ConsumerMemberTombstone: self._replay_member_gone,
            TargetEpochSaved: self._replay_target_epoch,
            TargetEpochTombstone: self._replay_target_epoch_gone,
            TargetAssignmentSaved: self._replay_target,
            TargetAssignmentTombstone: self._replay_target_gone,
            CurrentAssignmentSaved: self._replay_current,
            CurrentAssignmentTombstone: self._replay_current_gone,
            RegexResolved: self._replay_regex,
            RegexTombstone: self._replay_regex_gone,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SavedGroup) and self._contents() == other._contents()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def _contents(self) -> tuple[object, ...]:
        return (
            self.group_id,
            self.epoch,
            self.metadata_hash,
            self.target_epoch,
            self.assigned_ms,
            self.members,
            self.regexes,
            self._current,
            self._targets,
            self._owners,
            self._instances,
        )

    # Looking up

    def member(self, member_id: str) -> ConsumerGroupMember | None:
        saved = self.members.get(member_id)
        return None if saved is None else ConsumerGroupMember(saved, self.current(member_id))

    def static_member(self, instance_id: str) -> ConsumerGroupMember | None:
        member_id = self._instances.get(instance_id)
        return None if member_id is None else self.member(member_id)

    def current(self, member_id: str) -> CurrentAssignmentSaved:
        """A member's current assignment."""
        return self._current.get(member_id) or empty_assignment(self.group_id, member_id)

    def target(self, member_id: str) -> Target:
        """A member's target assignment."""
        return Target(self.target_epoch, self._targets.get(member_id, NO_PARTITIONS))

    def targets(self, member_ids: Iterable[str]) -> dict[str, Partitions]:
        """The target partitions of these members."""
        targets = self._targets
        return {member_id: targets.get(member_id, NO_PARTITIONS) for member_id in member_ids}

    def owner(self, topic_id: Uuid, index: int) -> str | None:
        """The member that owns a partition or has yet to report that it revoked it."""
        return self._owners.get(topic_id, {}).get(index)

    @property
    def subscriptions(self) -> Subscriptions:
        return Subscriptions(self.members, self.regexes)

    # Replaying

    def replay(self, record: Record) -> None:
        """Applies a record of this group.

        The records need not be consistent: a compacted log is not a complete history.
        """
        self._replays[type(record)](record)

    def _replay_group(self, record: ConsumerGroupSaved) -> None:
        self.epoch, self.metadata_hash = record.epoch, record.metadata_hash

    def _replay_group_gone(self, _: ConsumerGroupTombstone) -> None:
        self.epoch, self.metadata_hash = INITIAL_EPOCH, NO_TOPICS_HASH

    def _replay_member(self, record: ConsumerMemberSaved) -> None:
        self.members[record.member_id] = record
        if record.instance_id is not None:
            self._instances[record.instance_id] = record.member_id

    def _replay_member_gone(self, record: ConsumerMemberTombstone) -> None:
        gone = self.members.pop(record.member_id, None)
        if gone is None or gone.instance_id is None:
            return
        # Its successor may have taken over the instance id before.
        if self._instances.get(gone.instance_id) == record.member_id:
            del self._instances[gone.instance_id]

    def _replay_target_epoch(self, record: TargetEpochSaved) -> None:
        self.target_epoch, self.assigned_ms = record.epoch, record.assigned_ms or None

    def _replay_target_epoch_gone(self, _: TargetEpochTombstone) -> None:
        self.target_epoch, self.assigned_ms = INITIAL_EPOCH, None

    def _replay_target(self, record: TargetAssignmentSaved) -> None:
        self._targets[record.member_id] = record.partitions

    def _replay_target_gone(self, record: TargetAssignmentTombstone) -> None:
        self._targets.pop(record.member_id, None)

    def _replay_current(self, record: CurrentAssignmentSaved) -> None:
        self._disown(record.member_id)
        self._current[record.member_id] = record
        for partitions in (record.assigned, record.revoking):
            for topic_id, indexes in partitions.items():
                owners = self._owners.setdefault(topic_id, {})
                owners.update(dict.fromkeys(indexes, record.member_id))

    def _replay_current_gone(self, record: CurrentAssignmentTombstone) -> None:
        self._disown(record.member_id)
        self._current.pop(record.member_id, None)

    def _disown(self, member_id: str) -> None:
        before = self._current.get(member_id)
        if before is None:
            return
        for partitions in (before.assigned, before.revoking):
            for topic_id, indexes in partitions.items():
                owners = self._owners.get(topic_id, {})
                for index in indexes:
                    if owners.get(index) == member_id:
                        del owners[index]
                if not owners:
                    self._owners.pop(topic_id, None)

    def _replay_regex(self, record: RegexResolved) -> None:
        self.regexes[record.regex] = record

    def _replay_regex_gone(self, record: RegexTombstone) -> None:
        self.regexes.pop(record.regex, None)
