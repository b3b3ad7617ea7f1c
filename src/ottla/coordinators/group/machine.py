"""All groups of one shard and their committed offsets, routed by group id. Decides, does no I/O.

A group exists from its first member or committed offset until it is deleted, or until a round of
offset expiry finds it without members and without offsets. A group that only has committed offsets
(of a simple consumer) has no `Group` object. An offset that was committed in an open transaction is
an offset of its group, too.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from ottla.coordinators.group.consumer.parked_joins import ParkedJoins
from ottla.coordinators.group.consumer.timers import ASSIGNMENT_TIMER
from ottla.coordinators.group.decision import Decision
from ottla.coordinators.group.group import Group, GroupType
from ottla.coordinators.group.offsets import (
    NEVER_MS,
    CommitCheck,
    Offsets,
    PartitionCommit,
    accept_any,
)
from ottla.coordinators.group.records import (
    ClassicGroupSaved,
    ClassicGroupTombstone,
    ConsumerGroupSaved,
    ConsumerGroupTombstone,
    ConsumerMemberSaved,
    CurrentAssignmentSaved,
    OffsetCommitted,
    OffsetTombstone,
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
from ottla.protocol.batch import MarkerKind
from ottla.protocol.primitives import Uuid
from ottla.tuples import maker

EXPIRY_TIMER = "expiry"
# Bounds the time of one decision: other requests are handled between decisions.
MAX_EXAMINED_PER_DECISION = 1_000
MAX_TOMBSTONES_PER_DECISION = 1_000

# The bytes that a committed offset needs in the log besides its strings.
RECORD_FIELDS_BYTES = 96

# From this version on OffsetCommit has different codes for a missing group and an old generation.
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
    """The settings in force for all groups."""

    offset_metadata_bytes_max: int
    # A commit must fit one batch of the log.
    commit_bytes_max: int
    offsets_retention_ms: int
    retention_check_interval_ms: int
    groups_max: int
    # Offsets of open transactions, per shard.
    pending_offsets_max: int = 100_000


class CommitRequest(NamedTuple):
    """An OffsetCommit with its existing partitions. `retention_ms` is -1 if it has none."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    version: int
    retention_ms: int
    commits: Sequence[PartitionCommit]


class CommitDecision(NamedTuple):
    """The records of a commit, one error code per partition, and the timers to set."""

    records: Sequence[OffsetCommitted]
    codes: Sequence[ErrorCode]
    timers: tuple[TimerSet, ...]


_commit_decision = maker(CommitDecision)


class GroupListing(NamedTuple):
    """A group in the answer to ListGroups."""

    group_id: str
    protocol_type: str
    state_name: str
    group_type: GroupType


class GroupMachine:
    """The `Machine` of a shard of the group coordinator.

    `new_classic` and `new_consumer` make an empty group of that type.
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
        # Joins by the consumer protocol; their group may still be a classic one.
        self.joins = ParkedJoins()
        self._rules = rules
        self._meter = meter or GroupMeter()
        self._is_loaded = False
        self._new = {GroupType.CLASSIC: new_classic, GroupType.CONSUMER: new_consumer}
        # The groups that this round of offset expiry has yet to examine.
        self._to_examine: deque[str] = deque()

    def __contains__(self, group_id: str) -> bool:
        return group_id in self.groups or group_id in self.offsets

    def listed(self) -> Iterator[GroupListing]:
        for group_id, group in self.groups.items():
            yield GroupListing(group_id, group.protocol_type, group.state_name, group.group_type)
        for group_id in self.offsets.groups:
            if group_id not in self.groups:
                yield GroupListing(group_id, "", _EMPTY, GroupType.CLASSIC)

    def get_or_create(self, group_id: str, group_type: GroupType) -> Group:
        """The group, created if it does not exist. PeerError if there are too many groups.

        An existing group may have the other type: the caller refuses or converts it.
        """
        group = self.groups.get(group_id)
        if group is None:
            self._check_room(group_id)
            group = self.groups[group_id] = self._new[group_type](group_id)
        return group

    # Offsets

    def commit(self, request: CommitRequest, now_ms: int) -> CommitDecision:
        """PeerError if the member may not commit anything."""
        group_id, member_id, instance_id, generation, version, retention_ms, commits = request
        if not self._fits(request):
            raise PeerError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, "More than fits one batch.")
        group = self.groups.get(group_id)
        timers: tuple[TimerSet, ...] = ()
        check: CommitCheck = accept_any
        if group is None:
            self._check_simple_commit(request)
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
        return _commit_decision((records, codes, timers))

    def commit_in_transaction(self, request: CommitRequest, now_ms: int) -> CommitDecision:
        """The same for offsets that take effect with the transaction's COMMIT marker.

        A member with an outdated epoch commits nothing. The commit does not renew its session.
        """
        if not self._fits(request):
            raise PeerError(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, "More than fits one batch.")
        if len(self.offsets.pending) + len(request.commits) > self._rules.pending_offsets_max:
            # Transactions that end make room, so the client is to try again. The codes that tell it
            # to abort are fatal for clients that do not know them.
            raise PeerError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"{self._rules.pending_offsets_max} offsets are in open transactions.",
            )
        group = self.groups.get(request.group_id)
        check: CommitCheck = accept_any
        if group is None:
            self._check_simple_commit(request, is_transactional=True)
        else:
            check = group.check_commit(
                request.member_id,
                request.instance_id,
                request.generation,
                request.version,
                is_transactional=True,
            )
        records, codes = self.offsets.commit(
            request.group_id,
            request.commits,
            self._rules.offset_metadata_bytes_max,
            now_ms,
            NEVER_MS,
            check,
        )
        if ErrorCode.ILLEGAL_GENERATION in codes:
            raise PeerError(ErrorCode.ILLEGAL_GENERATION, "A partition is no longer the member's.")
        return CommitDecision(records, codes, ())

    def check_fetch(self, group_id: str, member_id: str | None, member_epoch: int) -> None:
        """PeerError unless this member may fetch the group's offsets; the group need not exist."""
        group = self.groups.get(group_id)
        if group is not None:
            group.check_fetch(member_id, member_epoch)

    def delete_offsets(
        self, group_id: str, partitions: Sequence[tuple[str, int]], ticket: Hashable
    ) -> Decision:
        """Answers with one code per partition. PeerError if none may be deleted."""
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
            is_committed = self.offsets.get(group_id, topic, partition) is not None
            if is_committed or self.offsets.pending.has(group_id, topic, partition):
                records.append(OffsetTombstone(group_id, topic, partition))
        return Decision(tuple(records), (Answered(ticket, codes),))

    def topic_deleted(self, topic: str, topic_id: Uuid) -> Decision:
        """Removes the topic's committed offsets in parts; call it until it returns no records."""
        return Decision(
            tuple(
                islice(self.offsets.topic_tombstones(topic, topic_id), MAX_TOMBSTONES_PER_DECISION)
            )
        )

    def topics_deleted(self, group_id: str, is_deleted: Callable[[str, Uuid], bool]) -> Decision:
        """The same for the offsets that one group has committed of any deleted topics."""
        return Decision(
            tuple(
                islice(
                    self.offsets.deleted_topic_tombstones(group_id, is_deleted),
                    MAX_TOMBSTONES_PER_DECISION,
                )
            )
        )

    # Groups

    def deletion_steps(self, group_id: str) -> int:
        """How many times `delete_group` has to be called to delete the group."""
        return max(1, -(-self.offsets.partition_count(group_id) // MAX_TOMBSTONES_PER_DECISION))

    def delete_group(self, group_id: str) -> Decision:
        """Removes a part of the group's offsets, and with the last part the group itself.

        PeerError if the group may not be deleted.
        """
        self._require(group_id)
        group = self.groups.get(group_id)
        if group is not None:
            group.check_delete()
        forgotten = self.offsets.group_tombstones(group_id)
        records: list[Record] = [*forgotten[:MAX_TOMBSTONES_PER_DECISION]]
        if len(forgotten) <= MAX_TOMBSTONES_PER_DECISION:
            records += self._group_tombstones(group_id)
        return Decision(tuple(records))

    # Loading, timers, replay

    def loaded(self, now_ms: int) -> Iterator[Decision]:
        self._is_loaded = True
        yield Decision(timers=(self._next_expiry(now_ms),))
        for group in list(self.groups.values()):
            yield group.loaded(now_ms)

    def timer_expired(self, timer_key: str, now_ms: int) -> Decision:
        if timer_key == EXPIRY_TIMER:
            return self._expire_offsets(now_ms)
        kind, _, group_id = timer_key.partition("/")
        if kind == ASSIGNMENT_TIMER:
            return self.joins.decide_next(group_id, now_ms)
        for group in self._timer_owners(timer_key):
            decision = group.timer_expired(timer_key, now_ms)
            if decision != NOTHING:
                return decision
        return NOTHING

    def replay(self, record: Record) -> None:
        match record:
            case OffsetCommitted() | OffsetTombstone():
                self.offsets.replay(record)
            case ClassicGroupSaved():
                self._replay_classic(record)
            case ClassicGroupTombstone():
                self._forget(record.group, GroupType.CLASSIC)
            case ConsumerGroupTombstone():
                self._forget(record.group, GroupType.CONSUMER)
            case _:
                self._replay_consumer(record)

    def replay_pending(self, record: Record, producer_id: int) -> None:
        # Nothing else is written in transactions.
        if isinstance(record, OffsetCommitted):
            self.offsets.replay_pending(record, producer_id)

    def replay_marker(self, producer_id: int, kind: MarkerKind) -> None:
        self._meter.offset_commits += self.offsets.replay_marker(producer_id, kind)

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

    def _fits(self, request: CommitRequest) -> bool:
        """Whether all its records fit one batch.

        A single record always fits: none of its strings is longer than 32 KiB.
        """
        return len(request.commits) == 1 or _bytes_at_most(request) <= self._rules.commit_bytes_max

    def _check_simple_commit(
        self, request: CommitRequest, *, is_transactional: bool = False
    ) -> None:
        """Checks a commit for a group without a `Group`: only commits without a generation pass."""
        if request.generation < 0:
            self._check_room(request.group_id)
        elif request.group_id in self.offsets:
            raise PeerError(ErrorCode.UNKNOWN_MEMBER_ID, "The group has no members.")
        elif request.version >= _MISSING_GROUPS_SINCE and not is_transactional:
            self._require(request.group_id)
        else:
            raise PeerError(ErrorCode.ILLEGAL_GENERATION, f"Group {request.group_id} not found.")

    def _next_expiry(self, now_ms: int) -> TimerSet:
        due_ms = now_ms if self._to_examine else now_ms + self._rules.retention_check_interval_ms
        return TimerSet(EXPIRY_TIMER, due_ms)

    def _expire_offsets(self, now_ms: int) -> Decision:
        """Examines some groups. The timer is due at once for the rest, then for the next round."""
        if not self._to_examine:
            self._to_examine.extend(self.groups.keys() | self.offsets.groups)
        records: list[Record] = []
        examined = 0
        while self._to_examine and examined < MAX_EXAMINED_PER_DECISION:
            group_id = self._to_examine.popleft()
            examined += 1 + sum(1 for _ in self.offsets.of(group_id))
            records += self._expire_group(group_id, now_ms)
        return Decision(tuple(records), timers=(self._next_expiry(now_ms),))

    def _expire_group(self, group_id: str, now_ms: int) -> list[Record]:
        """Tombstones of the group's expired offsets, and of the group if nothing of it is left."""
        group = self.groups.get(group_id)
        starts_ms: Callable[[int], int | None] = _at_commit
        is_in_use = _never_in_use
        if group is not None:
            starts_ms, is_in_use = group.offset_expiry_starts_ms, group.is_subscribed_to
        retention_ms = self._rules.offsets_retention_ms
        expiry = self.offsets.expired(group_id, starts_ms, is_in_use, retention_ms, now_ms)
        records: list[Record] = [*expiry.records[:MAX_TOMBSTONES_PER_DECISION]]
        self._meter.offset_expirations += len(records)
        if len(records) < len(expiry.records):
            # All offsets of a group may not fit one batch: the rest follows.
            self._to_examine.appendleft(group_id)
            return records
        is_over = expiry.is_all and (group is None or group.is_empty)
        # It may have been deleted since this round of expiry began.
        if is_over and group_id in self:
            records += self._group_tombstones(group_id)
        return records

    def _group_tombstones(self, group_id: str) -> Sequence[Record]:
        """The tombstones of a group, except those of its offsets."""
        group = self.groups.get(group_id)
        return (ClassicGroupTombstone(group_id),) if group is None else group.tombstones()

    def _timer_owners(self, timer_key: str) -> Iterator[Group]:
        """The groups that may have set the timer: group ids and member ids may contain slashes."""
        _, _, rest = timer_key.partition("/")
        end = len(rest)
        while end >= 0:
            group = self.groups.get(rest[:end])
            if group is not None:
                yield group
            end = rest.rfind("/", 0, end)

    def _replayed(self, group_id: str, group_type: GroupType) -> Group:
        """The group of a record. If it has the other type, the record replaces it."""
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
            # A load replays an earlier epoch, which is not a rebalance.
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


def _bytes_at_most(request: CommitRequest) -> int:
    """The most bytes that its records can need in the log; a character has at most four bytes."""
    each = RECORD_FIELDS_BYTES + 4 * len(request.group_id)
    texts = 0
    for topic, _, _, _, _, metadata in request.commits:
        texts += len(topic) + (len(metadata) if metadata else 0)
    return each * len(request.commits) + 4 * texts


def _at_commit(commit_ms: int) -> int:
    return commit_ms


def _never_in_use(topic: str) -> bool:  # noqa: ARG001 - a simple consumer has no subscription
    return False
