"""The committed offsets of the groups of one shard: commit, look-up, deletion, expiry. No I/O.

They change only by replaying; the other methods return the records of a change. Offsets that were
committed in a transaction are pending until its marker is replayed.
"""

from collections.abc import Callable, Iterator, KeysView, Sequence
from typing import NamedTuple

from ottla.coordinators.group.pending_offsets import PendingOffsets
from ottla.coordinators.group.records import OffsetCommitted, OffsetTombstone
from ottla.errors import ErrorCode
from ottla.protocol.batch import MarkerKind
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.tuples import maker

NEVER_MS = -1

# The look-up of an enum member takes ten times as long as that of a module's name.
_NONE = ErrorCode.NONE

_offset_committed = maker(OffsetCommitted)


class PartitionCommit(NamedTuple):
    """The offset to commit of one existing partition."""

    topic: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


# The error code for the commit of one partition, or NONE.
CommitCheck = Callable[[PartitionCommit], ErrorCode]


def accept_any(commit: PartitionCommit) -> ErrorCode:  # noqa: ARG001 - a CommitCheck
    """Accepts every partition."""
    return _NONE


class CommitOutcome(NamedTuple):
    """The records of a commit, and one error code per partition."""

    records: list[OffsetCommitted]
    codes: list[ErrorCode]


class Expiry(NamedTuple):
    """Tombstones of a group's expired offsets, and whether all of its offsets have expired."""

    records: list[OffsetTombstone]
    is_all: bool


class Offsets:
    """Committed offsets by group, topic and partition."""

    __slots__ = ("_by_group", "pending")

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, OffsetCommitted]]] = {}
        self.pending = PendingOffsets()

    def __contains__(self, group: str) -> bool:
        return group in self._by_group

    def __len__(self) -> int:
        return len(self._by_group)

    @property
    def groups(self) -> KeysView[str]:
        """The groups that committed something, in a transaction or not, and were not removed."""
        return self._by_group.keys()

    def of(self, group: str) -> Iterator[OffsetCommitted]:
        """All committed offsets of a group, topic by topic."""
        for partitions in self._by_group.get(group, {}).values():
            yield from partitions.values()

    def get(self, group: str, topic: str, partition: int) -> OffsetCommitted | None:
        """The committed offset of a partition; its topic id says for which topic of that name."""
        return self._by_group.get(group, {}).get(topic, {}).get(partition)

    # Deciding

    def commit(
        self,
        group: str,
        commits: Sequence[PartitionCommit],
        metadata_bytes_max: int,
        now_ms: int,
        expire_ms: int,
        check: CommitCheck = accept_any,
    ) -> CommitOutcome:
        """Each partition is committed or refused on its own."""
        records: list[OffsetCommitted] = []
        codes: list[ErrorCode] = []
        for commit in commits:
            topic, topic_id, partition, offset, leader_epoch, metadata = commit
            if metadata is not None and len(metadata) > metadata_bytes_max:
                codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            refusal = check(commit)
            codes.append(refusal)
            if refusal:
                continue
            records.append(
                _offset_committed(
                    (
                        *(group, topic, partition, offset, leader_epoch),
                        *(metadata or "", now_ms, expire_ms, topic_id),
                    )
                )
            )
        return CommitOutcome(records, codes)

    def partition_count(self, group: str) -> int:
        """The number of partitions with a committed or a pending offset."""
        return sum(1 for _ in self._partitions(group))

    def group_tombstones(self, group: str) -> list[OffsetTombstone]:
        return [_tombstone(offsets[0]) for offsets in self._partitions(group)]

    def topic_tombstones(self, topic: str, topic_id: Uuid) -> Iterator[OffsetTombstone]:
        """All groups' offsets of a deleted topic, except those of another topic of that name.

        A tombstone removes all offsets of its partition. So there is none for a partition of which
        offsets of both topics are found.
        """
        for group in self._by_group:
            for offsets in self._partitions(group, topic):
                if not any(_is_another(each.topic_id, topic_id) for each in offsets):
                    yield _tombstone(offsets[0])

    def deleted_topic_tombstones(
        self, group: str, is_deleted: Callable[[str, Uuid], bool]
    ) -> Iterator[OffsetTombstone]:
        """A group's offsets of deleted topics; `is_deleted` gets a topic's name and id."""
        for offsets in self._partitions(group):
            if all(is_deleted(each.topic, each.topic_id) for each in offsets):
                yield _tombstone(offsets[0])

    def _partitions(self, group: str, topic: str | None = None) -> Iterator[list[OffsetCommitted]]:
        """Per partition, of one topic or of all: its committed offset and its pending offsets.

        A pending offset that is overtaken never takes effect, and is left out.
        """
        pending, topics = self.pending, self._by_group.get(group, {})
        names = list(topics) if topic is None else [topic]
        for name in names:
            for index, committed in list(topics.get(name, {}).items()):
                yield [committed, *pending.of(group, name, index)] if pending else [committed]
        for name, index in pending.partitions(group):
            if name == topic or topic is None:
                offsets = list(pending.of(group, name, index))
                if offsets and self.get(group, name, index) is None:
                    yield offsets

    def expired(
        self,
        group: str,
        starts_ms: Callable[[int], int | None],
        is_in_use: Callable[[str], bool],
        retention_ms: int,
        now_ms: int,
    ) -> Expiry:
        """The expired offsets of a group.

        `starts_ms` returns when the retention of an offset starts, given its commit time; None: it
        does not expire yet. Offsets of topics that are in use never expire, nor do those of
        partitions with a pending offset.
        """
        expiry = Expiry([], True)
        pending = self.pending
        is_all = not pending.has_group(group)
        for topic, partitions in self._by_group.get(group, {}).items():
            for index, committed in partitions.items():
                if (
                    not is_in_use(topic)
                    and _has_expired(
                        committed, starts_ms(committed.commit_ms), retention_ms, now_ms
                    )
                    and not pending.has(group, topic, index)
                ):
                    expiry.records.append(_tombstone(committed))
                else:
                    is_all = False
        return expiry._replace(is_all=is_all)

    # Replaying

    def replay(self, record: OffsetCommitted | OffsetTombstone) -> None:
        """A group whose last offset was removed stays until `drop`."""
        if isinstance(record, OffsetCommitted):
            group, topic, partition = record[:3]
            # Empty nearly always: commits are frequent.
            if self.pending.by_producer:
                self.pending.overtake(group, topic, partition)
            self._by_group.setdefault(group, {}).setdefault(topic, {})[partition] = record
        else:
            self._forget(record)

    def replay_pending(self, record: OffsetCommitted, producer_id: int) -> None:
        """An offset of an open transaction. Its group exists from now on, until `drop`."""
        self._by_group.setdefault(record.group, {})
        self.pending.add(record, producer_id)

    def replay_marker(self, producer_id: int, kind: MarkerKind) -> int:
        """A transaction has ended. Returns how many offsets were committed with it."""
        ended = self.pending.end(producer_id)
        if kind is not MarkerKind.COMMIT:
            return 0
        for each in ended:
            if not each.is_overtaken:
                group, topic, partition = each.committed[:3]
                self.pending.overtake(group, topic, partition, by=each)
                topics = self._by_group.setdefault(group, {})
                topics.setdefault(topic, {})[partition] = each.committed
        return len(ended)

    def drop(self, group: str) -> None:
        """Removes the group, unless it has committed or pending offsets."""
        if not self._by_group.get(group, True) and not self.pending.has_group(group):
            del self._by_group[group]

    def _forget(self, record: OffsetTombstone) -> None:
        self.pending.forget(record.group, record.topic, record.partition)
        topics = self._by_group.get(record.group, {})
        partitions = topics.get(record.topic, {})
        partitions.pop(record.partition, None)
        if not partitions:
            topics.pop(record.topic, None)


def _has_expired(
    committed: OffsetCommitted, starts_ms: int | None, retention_ms: int, now_ms: int
) -> bool:
    if starts_ms is None:
        return False
    if committed.expire_ms != NEVER_MS:
        # Old clients set the retention in their commits.
        return now_ms >= committed.expire_ms
    return now_ms - starts_ms >= retention_ms


def _tombstone(committed: OffsetCommitted) -> OffsetTombstone:
    return OffsetTombstone(committed.group, committed.topic, committed.partition)


def _is_another(topic_id: Uuid, other_id: Uuid) -> bool:
    """Whether two topics of the same name are known to be different topics."""
    return ZERO_UUID not in (topic_id, other_id) and topic_id != other_id
