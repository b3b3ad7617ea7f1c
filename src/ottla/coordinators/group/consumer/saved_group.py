"""What is saved of a group of the consumer protocol, and what follows from it. Pure.

`replay` is the only way in, for a live write as for a restart.
"""

from collections.abc import Callable, Iterable
from typing import Any

from ottla.coordinators.group.consumer.member import ConsumerGroupMember, standing_nowhere
from ottla.coordinators.group.consumer.reconciliation import NO_PARTITIONS, Target
from ottla.coordinators.group.consumer.subscriptions import Subscriptions
from ottla.coordinators.group.consumer.topics import NO_TOPICS_HASH
from ottla.coordinators.group.records import (
    ConsumerGroupForgotten,
    ConsumerGroupSaved,
    ConsumerMemberForgotten,
    ConsumerMemberSaved,
    CurrentAssignmentForgotten,
    CurrentAssignmentSaved,
    Partitions,
    Record,
    RegexForgotten,
    RegexResolved,
    TargetAssignmentForgotten,
    TargetAssignmentSaved,
    TargetEpochForgotten,
    TargetEpochSaved,
)
from ottla.protocol.primitives import Uuid

# As in Kafka 4.3: the first member that subscribes to something brings the group to epoch 2.
INITIAL_EPOCH = 1


class SavedGroup:
    """See the module. Equal if the same is saved."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = INITIAL_EPOCH
        self.metadata_hash = NO_TOPICS_HASH
        self.target_epoch = INITIAL_EPOCH
        # When the target was decided; None if it never was.
        self.assigned_ms: int | None = None
        self.members: dict[str, ConsumerMemberSaved] = {}
        self.regexes: dict[str, RegexResolved] = {}
        self._current: dict[str, CurrentAssignmentSaved] = {}
        self._targets: dict[str, Partitions] = {}
        # These follow from the above.
        self._owners: dict[Uuid, dict[int, str]] = {}
        self._instances: dict[str, str] = {}
        self._replays: dict[type, Callable[[Any], None]] = {
            ConsumerGroupSaved: self._replay_group,
            ConsumerGroupForgotten: self._replay_group_gone,
            ConsumerMemberSaved: self._replay_member,
            ConsumerMemberForgotten: self._replay_member_gone,
            TargetEpochSaved: self._replay_target_epoch,
            TargetEpochForgotten: self._replay_target_epoch_gone,
            TargetAssignmentSaved: self._replay_target,
            TargetAssignmentForgotten: self._replay_target_gone,
            CurrentAssignmentSaved: self._replay_current,
            CurrentAssignmentForgotten: self._replay_current_gone,
            RegexResolved: self._replay_regex,
            RegexForgotten: self._replay_regex_gone,
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
        """Where a member stands."""
        return self._current.get(member_id) or standing_nowhere(self.group_id, member_id)

    def target(self, member_id: str) -> Target:
        """What a member is to own."""
        return Target(self.target_epoch, self._targets.get(member_id, NO_PARTITIONS))

    def targets(self, member_ids: Iterable[str]) -> dict[str, Partitions]:
        """What each of these is to own."""
        targets = self._targets
        return {member_id: targets.get(member_id, NO_PARTITIONS) for member_id in member_ids}

    def owner(self, topic_id: Uuid, index: int) -> str | None:
        """Who owns a partition, or has yet to say that it gave it up."""
        return self._owners.get(topic_id, {}).get(index)

    @property
    def subscriptions(self) -> Subscriptions:
        return Subscriptions(self.members, self.regexes)

    # Replaying

    def replay(self, record: Record) -> None:
        """Takes a record of this group. A record that others of the group do not fit is taken too:
        what compaction left of a log is no complete history."""
        self._replays[type(record)](record)

    def _replay_group(self, record: ConsumerGroupSaved) -> None:
        self.epoch, self.metadata_hash = record.epoch, record.metadata_hash

    def _replay_group_gone(self, _: ConsumerGroupForgotten) -> None:
        self.epoch, self.metadata_hash = INITIAL_EPOCH, NO_TOPICS_HASH

    def _replay_member(self, record: ConsumerMemberSaved) -> None:
        self.members[record.member_id] = record
        if record.instance_id is not None:
            self._instances[record.instance_id] = record.member_id

    def _replay_member_gone(self, record: ConsumerMemberForgotten) -> None:
        gone = self.members.pop(record.member_id, None)
        if gone is None or gone.instance_id is None:
            return
        # Its successor may have taken the instance over before.
        if self._instances.get(gone.instance_id) == record.member_id:
            del self._instances[gone.instance_id]

    def _replay_target_epoch(self, record: TargetEpochSaved) -> None:
        self.target_epoch, self.assigned_ms = record.epoch, record.assigned_ms or None

    def _replay_target_epoch_gone(self, _: TargetEpochForgotten) -> None:
        self.target_epoch, self.assigned_ms = INITIAL_EPOCH, None

    def _replay_target(self, record: TargetAssignmentSaved) -> None:
        self._targets[record.member_id] = record.partitions

    def _replay_target_gone(self, record: TargetAssignmentForgotten) -> None:
        self._targets.pop(record.member_id, None)

    def _replay_current(self, record: CurrentAssignmentSaved) -> None:
        self._disown(record.member_id)
        self._current[record.member_id] = record
        for partitions in (record.assigned, record.revoking):
            for topic_id, indexes in partitions.items():
                owners = self._owners.setdefault(topic_id, {})
                owners.update(dict.fromkeys(indexes, record.member_id))

    def _replay_current_gone(self, record: CurrentAssignmentForgotten) -> None:
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

    def _replay_regex_gone(self, record: RegexForgotten) -> None:
        self.regexes.pop(record.regex, None)
