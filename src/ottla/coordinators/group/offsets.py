"""Committed offsets of the groups of one shard: committed, found, deleted, expired. No I/O.

They change by `replay` alone; the rest gives the records that would change them.
"""

from collections.abc import Callable, Iterator, KeysView, Sequence
from typing import NamedTuple

from ottla.coordinators.group.records import OffsetCommitted, OffsetForgotten
from ottla.errors import ErrorCode
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.tuples import maker

NEVER_MS = -1

# A member of an enum is found in ten times the time of a module's name: not for every commit.
_NONE = ErrorCode.NONE

_offset_committed = maker(OffsetCommitted)


class Commit(NamedTuple):
    """What a group wants remembered of a partition that exists."""

    topic: str
    topic_id: Uuid
    partition: int
    offset: int
    leader_epoch: int
    metadata: str | None


# Why one offset is not committed, or NONE.
CommitCheck = Callable[[Commit], ErrorCode]


def anything(commit: Commit) -> ErrorCode:  # noqa: ARG001 - a CommitCheck
    """Refuses nothing."""
    return _NONE


class Committed(NamedTuple):
    """The records of a commit, and a code for each thing that was to be committed."""

    records: list[OffsetCommitted]
    codes: list[ErrorCode]


class Expiry(NamedTuple):
    """What of a group's offsets has had its time, and whether that is all of them."""

    records: list[OffsetForgotten]
    is_all: bool


class Offsets:
    """By group, topic and partition."""

    __slots__ = ("_by_group",)

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, dict[int, OffsetCommitted]]] = {}

    def __contains__(self, group: str) -> bool:
        return group in self._by_group

    def __len__(self) -> int:
        return len(self._by_group)

    @property
    def groups(self) -> KeysView[str]:
        """The groups that have committed something and were not dropped since."""
        return self._by_group.keys()

    def of(self, group: str) -> Iterator[OffsetCommitted]:
        """All that a group has committed, a topic after another."""
        for partitions in self._by_group.get(group, {}).values():
            yield from partitions.values()

    def get(self, group: str, topic: str, partition: int) -> OffsetCommitted | None:
        """What a group has committed of a partition; its topic id says of which topic."""
        return self._by_group.get(group, {}).get(topic, {}).get(partition)

    # Deciding

    def commit(
        self,
        group: str,
        commits: Sequence[Commit],
        metadata_bytes_max: int,
        now_ms: int,
        expire_ms: int,
        check: CommitCheck = anything,
    ) -> Committed:
        """Each is committed or refused by itself."""
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
        return Committed(records, codes)

    def forget_all(self, group: str) -> list[OffsetForgotten]:
        return [_forgotten(committed) for committed in self.of(group)]

    def forget_topic(self, topic: str, topic_id: Uuid) -> Iterator[OffsetForgotten]:
        """What any group has committed of a topic that is gone, as far as it was this one."""
        for group in self._by_group:
            for committed in list(self._by_group[group].get(topic, {}).values()):
                if not _is_another(committed.topic_id, topic_id):
                    yield _forgotten(committed)

    def forget_gone(
        self, group: str, is_gone: Callable[[str, Uuid], bool]
    ) -> Iterator[OffsetForgotten]:
        """What a group has committed of topics that are gone, by their names and ids."""
        for committed in list(self.of(group)):
            if is_gone(committed.topic, committed.topic_id):
                yield _forgotten(committed)

    def expired(
        self,
        group: str,
        starts_ms: Callable[[int], int | None],
        is_in_use: Callable[[str], bool],
        retention_ms: int,
        now_ms: int,
    ) -> Expiry:
        """What has had its time.

        `starts_ms` says from when on that of an offset counts, given when it was committed; None:
        none expires yet. Offsets of topics that are in use never expire.
        """
        expiry = Expiry([], True)
        is_all = True
        for topic, partitions in self._by_group.get(group, {}).items():
            for committed in partitions.values():
                if not is_in_use(topic) and _has_expired(
                    committed, starts_ms(committed.commit_ms), retention_ms, now_ms
                ):
                    expiry.records.append(_forgotten(committed))
                else:
                    is_all = False
        return expiry._replace(is_all=is_all)

    # Replaying

    def replay(self, record: OffsetCommitted | OffsetForgotten) -> None:
        """A group that has nothing committed any more is one until it is dropped."""
        if isinstance(record, OffsetCommitted):
            group, topic, partition = record[:3]
            self._by_group.setdefault(group, {}).setdefault(topic, {})[partition] = record
        else:
            self._forget(record)

    def drop(self, group: str) -> None:
        """The group has ended, unless something is committed for it."""
        if group in self._by_group and not self._by_group[group]:
            del self._by_group[group]

    def _forget(self, record: OffsetForgotten) -> None:
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
        # Old clients said themselves how long.
        return now_ms >= committed.expire_ms
    return now_ms - starts_ms >= retention_ms


def _forgotten(committed: OffsetCommitted) -> OffsetForgotten:
    return OffsetForgotten(committed.group, committed.topic, committed.partition)


def _is_another(topic_id: Uuid, other_id: Uuid) -> bool:
    """Whether two topics of one name are known not to be the same."""
    return ZERO_UUID not in (topic_id, other_id) and topic_id != other_id
