"""The committed offsets of the groups of one shard: commit, look-up, deletion, expiry. No I/O.

They change only by `replay`; the other methods return the records of a change.
"""

from collections.abc import Callable, Iterator, KeysView, Sequence
from typing import NamedTuple

from ottla.coordinators.group.records import OffsetCommitted, OffsetTombstone
from ottla.errors import ErrorCode
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

    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, OffsetCommitted]]] = {}

    def __contains__(self, group: str) -> bool:
        return group in self._by_group

    def __len__(self) -> int:
        return len(self._by_group)

    @property
    def groups(self) -> KeysView[str]:
        """The groups that have committed something and were not removed since."""
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

    def group_tombstones(self, group: str) -> list[OffsetTombstone]:
        return [_tombstone(committed) for committed in self.of(group)]

    def topic_tombstones(self, topic: str, topic_id: Uuid) -> Iterator[OffsetTombstone]:
        """All groups' offsets of a deleted topic, except those of another topic of that name."""
        for group in self._by_group:
            for committed in list(self._by_group[group].get(topic, {}).values()):
                if not _is_another(committed.topic_id, topic_id):
                    yield _tombstone(committed)

    def deleted_topic_tombstones(
        self, group: str, is_deleted: Callable[[str, Uuid], bool]
    ) -> Iterator[OffsetTombstone]:
        """A group's offsets of deleted topics; `is_deleted` gets a topic's name and id."""
        for committed in list(self.of(group)):
            if is_deleted(committed.topic, committed.topic_id):
                yield _tombstone(committed)

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
        does not expire yet. Offsets of topics that are in use never expire.
        """
        expiry = Expiry([], True)
        is_all = True
        for topic, partitions in self._by_group.get(group, {}).items():
            for committed in partitions.values():
                if not is_in_use(topic) and _has_expired(
                    committed, starts_ms(committed.commit_ms), retention_ms, now_ms
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
            self._by_group.setdefault(group, {}).setdefault(topic, {})[partition] = record
        else:
            self._forget(record)

    def drop(self, group: str) -> None:
        """Removes the group, unless it has committed offsets."""
        if group in self._by_group and not self._by_group[group]:
            del self._by_group[group]

    def _forget(self, record: OffsetTombstone) -> None:
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
