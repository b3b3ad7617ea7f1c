"""All groups of one shard and what they have committed: routed by group id. Decides, does no I/O.

A group exists if it has, or had, members, or if something is, or was, committed for it: until it is
deleted, or found to be without both when offsets are looked through for their age. What was
committed for a name that nobody ever joined under is a simple consumer's: such a group has no
`Group`.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from ottla.coordinators.group.consumer.parked_joins import ParkedJoins
from ottla.coordinators.group.consumer.timers import ASSIGNMENT_TIMER
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import Group, GroupType
from ottla.coordinators.group.offsets import NEVER_MS, Commit, CommitCheck, Offsets, anything
from ottla.coordinators.group.records import (
    ClassicGroupForgotten,
    ClassicGroupSaved,
    ConsumerGroupForgotten,
    ConsumerGroupSaved,
    ConsumerMemberSaved,
    CurrentAssignmentSaved,
    OffsetCommitted,
    OffsetForgotten,
    Record,
    RegexResolved,
    TargetAssignmentSaved,
    TargetEpochSaved,
    decode,
    encode,
)
from ottla.coordinators.runtime.decision import NOTHING, Answered, TimerSet
from ottla.errors import ErrorCode, PeerError
from ottla.metrics.meters import GroupMeter
from ottla.protocol.primitives import Uuid
from ottla.tuples import maker

EXPIRY_TIMER = "expiry"
# How many offsets are looked at, and how many are dropped, before others have their turn.
EXAMINED_AT_ONCE = 1_000
FORGOTTEN_AT_ONCE = 1_000

# What a committed offset needs in the log besides its texts.
RECORD_FIELDS_BYTES = 96

# From this version on OffsetCommit tells a missing group from an old generation.
_MISSING_GROUPS_SINCE = 9
_EMPTY = "Empty"
_COMPLETING = "CompletingRebalance"
_STABLE = "Stable"
_CONSUMER_SAVED = (
    ConsumerGroupSaved,
    ConsumerMemberSaved,
    TargetEpochSaved,
    TargetAssignmentSaved,
    CurrentAssignmentSaved,
    RegexResolved,
)


class GroupRules(NamedTuple):
    """The settings that all groups obey."""

    offset_metadata_bytes_max: int
    # One commit is one batch of the log: what does not fit one is refused.
    commit_bytes_max: int
    offsets_retention_ms: int
    retention_check_interval_ms: int
    groups_max: int


class CommitWish(NamedTuple):
    """An OffsetCommit, as far as its partitions exist. `retention_ms` is -1 if it has none."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    version: int
    retention_ms: int
    commits: Sequence[Commit]


class Committing(NamedTuple):
    """What a commit would change, and a code for each thing that was to be committed."""

    records: Sequence[OffsetCommitted]
    codes: Sequence[ErrorCode]
    timers: tuple[TimerSet, ...]


_committing = maker(Committing)


class Listed(NamedTuple):
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state_name: str
    group_type: GroupType


class GroupMachine:
    """A shard's `Machine`.

    `new_classic` and `new_consumer` make a group of that kind that nothing is known of yet.
    """

    encode = staticmethod(encode)
    decode = staticmethod(decode)

    def __init__(
        self,
        rules: GroupRules,
        new_classic: Callable[[str], Group],
        new_consumer: Callable[[str], Group],
        meter: GroupMeter | None = None,
    ) -> None:
        self.offsets = Offsets()
        self.groups: dict[str, Group] = {}
        # By the consumer protocol; a group need not be of that protocol yet.
        self.joins = ParkedJoins()
        self._rules = rules
        self._meter = meter or GroupMeter()
        self._is_loaded = False
        self._new = {GroupType.CLASSIC: new_classic, GroupType.CONSUMER: new_consumer}
        # The groups whose offsets this round of expiry has still to look at.
        self._to_examine: deque[str] = deque()

    def __contains__(self, group_id: str) -> bool:
        return group_id in self.groups or group_id in self.offsets

    def listed(self) -> Iterator[Listed]:
        for group_id, group in self.groups.items():
            yield Listed(group_id, group.protocol_type, group.state_name, group.group_type)
        for group_id in self.offsets.groups:
            if group_id not in self.groups:
                yield Listed(group_id, "", _EMPTY, GroupType.CLASSIC)

    def created(self, group_id: str, group_type: GroupType) -> Group:
        """The group, made if it is not there. PeerError if there is no room for one more.

        It may be of the other type: then it is the caller's to refuse or to convert it.
        """
        group = self.groups.get(group_id)
        if group is None:
            self._check_room(group_id)
            group = self.groups[group_id] = self._new[group_type](group_id)
        return group

    # Offsets

    def commit(self, wish: CommitWish, now_ms: int) -> Committing:
        """PeerError if the member may not commit at all."""
        group_id, member_id, instance_id, generation, version, retention_ms, commits = wish
        if not self._fits(wish):
            raise PeerError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, "More than fits one batch.")
        group = self.groups.get(group_id)
        timers: tuple[TimerSet, ...] = ()
        check: CommitCheck = anything
        if group is None:
            self._check_simple_commit(wish)
        else:
            check = group.check_commit(member_id, instance_id, generation, version)
            timers = group.committed(member_id, now_ms)
        records, codes = self.offsets.commit(
            group_id,
            commits,
            self._rules.offset_metadata_bytes_max,
            now_ms,
            NEVER_MS if retention_ms < 0 else now_ms + retention_ms,
            check,
        )
        self._meter.offset_commits += len(records)
        return _committing((records, codes, timers))

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """PeerError unless this member may ask for the group's offsets; nobody needs a group."""
        group = self.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]], ticket: Hashable
    ) -> Decision:
        """Answers with a code for each partition. PeerError if the group's may not be deleted."""
        self._require(group_id)
        group = self.groups.get(group_id)
        if group is not None:
            group.check_offset_delete()
        codes: list[ErrorCode] = []
        records: list[Record] = []
        for topic, partition in partitions:
            if group is not None and group.is_subscribed_to(topic):
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            if self.offsets.get(group_id, topic, partition) is not None:
                records.append(OffsetForgotten(group_id, topic, partition))
        return Decision(tuple(records), (Answered(ticket, codes),))

    def topic_deleted(self, topic: str, topic_id: Uuid) -> Decision:
        """Drops what was committed of it, a part at a time: until there are no records left."""
        return Decision(
            tuple(islice(self.offsets.forget_topic(topic, topic_id), FORGOTTEN_AT_ONCE))
        )

    def topics_gone(self, group_id: str, is_gone: Callable[[str, Uuid], bool]) -> Decision:
        """The same for what a group has committed of any topic that is gone."""
        return Decision(
            tuple(islice(self.offsets.forget_gone(group_id, is_gone), FORGOTTEN_AT_ONCE))
        )

    # Groups

    def deletions(self, group_id: str) -> int:
        """How many times `delete_group` has to be asked for a group to be gone."""
        return max(1, -(-sum(1 for _ in self.offsets.of(group_id)) // FORGOTTEN_AT_ONCE))

    def delete_group(self, group_id: str) -> Decision:
        """Some of what a group has committed goes, and with the last of it the group.

        PeerError if it may not go.
        """
        self._require(group_id)
        group = self.groups.get(group_id)
        if group is not None:
            group.check_delete()
        forgotten = self.offsets.forget_all(group_id)
        records: list[Record] = [*forgotten[:FORGOTTEN_AT_ONCE]]
        if len(forgotten) <= FORGOTTEN_AT_ONCE:
            records += self._ended(group_id)
        return Decision(tuple(records))

    # Living

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        self._is_loaded = True
        yield Decision(timers=(self._next_expiry(now_ms),))
        for group in list(self.groups.values()):
            yield group.loaded(now_ms)

    def expired(self, timer_key: str, now_ms: int) -> Decision:
        if timer_key == EXPIRY_TIMER:
            return self._expire_offsets(now_ms)
        kind, _, group_id = timer_key.partition("/")
        if kind == ASSIGNMENT_TIMER:
            return self.joins.decide_next(group_id, now_ms)
        for group in self._timed(timer_key):
            decision = group.expired(timer_key, now_ms)
            if decision != NOTHING:
                return decision
        return NOTHING

    def replay(self, record: Record) -> None:
        match record:
            case OffsetCommitted() | OffsetForgotten():
                self.offsets.replay(record)
            case ClassicGroupSaved():
                self._replay_classic(record)
            case ClassicGroupForgotten():
                self._forget(record.group, GroupType.CLASSIC)
            case ConsumerGroupForgotten():
                self._forget(record.group, GroupType.CONSUMER)
            case _:
                self._replay_consumer(record)

    # Parts

    def _require(self, group_id: str) -> None:
        if group_id not in self:
            raise PeerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")

    def _check_room(self, group_id: str) -> None:
        if group_id not in self and len(self.groups) + len(self.offsets) >= self._rules.groups_max:
            raise PeerError(
                ErrorCode.POLICY_VIOLATION, f"There is no room for more groups than {len(self)}."
            )

    def __len__(self) -> int:
        return len(self.groups.keys() | self.offsets.groups)

    def _fits(self, wish: CommitWish) -> bool:
        """Whether there is room for all its records in one batch.

        For one record there is: no text of it is longer than 32 KiB.
        """
        return len(wish.commits) == 1 or _bytes_at_most(wish) <= self._rules.commit_bytes_max

    def _check_simple_commit(self, wish: CommitWish) -> None:
        """A group without members: only who claims no membership may commit for it."""
        if wish.generation < 0:
            self._check_room(wish.group_id)
        elif wish.group_id in self.offsets:
            raise PeerError(ErrorCode.UNKNOWN_MEMBER_ID, "The group has no members.")
        elif wish.version >= _MISSING_GROUPS_SINCE:
            self._require(wish.group_id)
        else:
            raise PeerError(ErrorCode.ILLEGAL_GENERATION, f"Group {wish.group_id} not found.")

    def _next_expiry(self, now_ms: int) -> TimerSet:
        due_ms = now_ms if self._to_examine else now_ms + self._rules.retention_check_interval_ms
        return TimerSet(EXPIRY_TIMER, due_ms)

    def _expire_offsets(self, now_ms: int) -> Decision:
        """Looks at some groups; at the others right afterwards, at all of them again much later."""
        if not self._to_examine:
            self._to_examine.extend(self.groups.keys() | self.offsets.groups)
        records: list[Record] = []
        examined = 0
        while self._to_examine and examined < EXAMINED_AT_ONCE:
            group_id = self._to_examine.popleft()
            examined += 1 + sum(1 for _ in self.offsets.of(group_id))
            records += self._expired_of(group_id, now_ms)
        return Decision(tuple(records), timers=(self._next_expiry(now_ms),))

    def _expired_of(self, group_id: str, now_ms: int) -> list[Record]:
        """What of a group has had its time: in the end the group itself."""
        group = self.groups.get(group_id)
        starts_ms: Callable[[int], int | None] = _at_the_commit
        is_in_use = _by_nobody
        if group is not None:
            starts_ms, is_in_use = group.offset_expiry_starts_ms, group.is_subscribed_to
        retention_ms = self._rules.offsets_retention_ms
        expiry = self.offsets.expired(group_id, starts_ms, is_in_use, retention_ms, now_ms)
        records: list[Record] = [*expiry.records[:FORGOTTEN_AT_ONCE]]
        self._meter.offset_expirations += len(records)
        if len(records) < len(expiry.records):
            # One batch would not have room for all that a group may have: the rest is next.
            self._to_examine.appendleft(group_id)
            return records
        is_over = expiry.is_all and (group is None or group.is_empty)
        # It may have been deleted since this round of expiry began.
        if is_over and group_id in self:
            records += self._ended(group_id)
        return records

    def _ended(self, group_id: str) -> Sequence[Record]:
        """What says that a group is no more, offsets apart."""
        group = self.groups.get(group_id)
        return (ClassicGroupForgotten(group_id),) if group is None else group.forgotten()

    def _timed(self, timer_key: str) -> Iterator[Group]:
        """The groups that may have set a timer: their ids and their members' may have slashes."""
        _, _, rest = timer_key.partition("/")
        end = len(rest)
        while end >= 0:
            group = self.groups.get(rest[:end])
            if group is not None:
                yield group
            end = rest.rfind("/", 0, end)

    def _replayed(self, group_id: str, group_type: GroupType) -> Group:
        """The group that a record is of; one of the other type has ended before it."""
        group = self.groups.get(group_id)
        if group is None or group.group_type is not group_type:
            group = self.groups[group_id] = self._new[group_type](group_id)
        return group

    def _replay_classic(self, record: ClassicGroupSaved) -> None:
        group = self._replayed(record.group, GroupType.CLASSIC)
        was_completing = group.state_name == _COMPLETING
        group.replay(record)
        self._meter.classic_rebalances += was_completing and group.state_name == _STABLE

    def _replay_consumer(self, record: Record) -> None:
        if isinstance(record, ConsumerGroupSaved):
            # What is loaded is the epoch that there was, no new one.
            self._meter.consumer_rebalances += self._is_loaded
        if isinstance(record, _CONSUMER_SAVED):
            self._replayed(record.group, GroupType.CONSUMER).replay(record)
            return
        group = self.groups.get(record.group)
        if group is not None and group.group_type is GroupType.CONSUMER:
            group.replay(record)

    def _forget(self, group_id: str, group_type: GroupType) -> None:
        group = self.groups.get(group_id)
        if group is not None and group.group_type is group_type:
            del self.groups[group_id]
        if group_id not in self.groups:
            self.offsets.drop(group_id)


def _bytes_at_most(wish: CommitWish) -> int:
    """What its records could need in the log; a character is at most four bytes."""
    each = RECORD_FIELDS_BYTES + 4 * len(wish.group_id)
    texts = 0
    for topic, _, _, _, _, metadata in wish.commits:
        texts += len(topic) + (len(metadata) if metadata else 0)
    return each * len(wish.commits) + 4 * texts


def _at_the_commit(commit_ms: int) -> int:
    return commit_ms


def _by_nobody(topic: str) -> bool:  # noqa: ARG001 - a simple consumer subscribes to nothing
    return False
