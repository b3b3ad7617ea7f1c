"""Offsets that were committed in transactions which are still open. No I/O.

A pending offset takes effect with the COMMIT marker of its transaction, unless it is overtaken: a
later record of its partition took effect before. Compaction keeps the later one of two records, so
a state in which the earlier one counts would change when the log is compacted.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from ottla.coordinators.group.records import OffsetCommitted

_Partition = tuple[str, int]
_NOTHING: Mapping[_Partition, "dict[int, PendingOffset]"] = MappingProxyType({})


class PendingOffset:
    """One pending offset. Its `number` grows in the order of the records in the log."""

    __slots__ = ("committed", "is_overtaken", "number")

    def __init__(self, committed: OffsetCommitted, number: int) -> None:
        self.committed = committed
        self.number = number
        self.is_overtaken = False


class PendingOffsets:
    """Pending offsets by producer, and by group and partition. They change only by replay."""

    __slots__ = ("_by_group", "_count", "_last_number", "by_producer")

    def __init__(self) -> None:
        # In both, an inner dict is removed with its last entry.
        self.by_producer: dict[int, dict[tuple[str, str, int], PendingOffset]] = {}
        self._by_group: dict[str, dict[_Partition, dict[int, PendingOffset]]] = {}
        self._count = 0
        self._last_number = 0

    def __len__(self) -> int:
        return self._count

    def has_group(self, group: str) -> bool:
        return group in self._by_group

    def has(self, group: str, topic: str, partition: int) -> bool:
        """Whether a transaction with an offset of this partition is open: it is not stable."""
        return (topic, partition) in self._by_group.get(group, _NOTHING)

    def partitions(self, group: str) -> list[_Partition]:
        """The partitions of which the group has pending offsets."""
        return list(self._by_group.get(group, _NOTHING))

    def of(self, group: str, topic: str, partition: int) -> Iterator[OffsetCommitted]:
        """The pending offsets of a partition that may still take effect."""
        for pending in self._by_group.get(group, _NOTHING).get((topic, partition), {}).values():
            if not pending.is_overtaken:
                yield pending.committed

    # Replaying

    def add(self, committed: OffsetCommitted, producer_id: int) -> None:
        """It replaces an earlier offset of the same transaction."""
        group, topic, partition = committed[:3]
        self._last_number += 1
        pending = PendingOffset(committed, self._last_number)
        offsets = self.by_producer.setdefault(producer_id, {})
        self._count += (group, topic, partition) not in offsets
        offsets[group, topic, partition] = pending
        partitions = self._by_group.setdefault(group, {})
        partitions.setdefault((topic, partition), {})[producer_id] = pending

    def overtake(
        self, group: str, topic: str, partition: int, by: PendingOffset | None = None
    ) -> None:
        """An offset of the partition took effect: by default one that is later than all others."""
        for pending in self._by_group.get(group, _NOTHING).get((topic, partition), {}).values():
            if by is None or pending.number < by.number:
                pending.is_overtaken = True

    def forget(self, group: str, topic: str, partition: int) -> None:
        """A tombstone: no pending offset of the partition takes effect."""
        partitions = self._by_group.get(group, {})
        for producer_id in partitions.pop((topic, partition), {}):
            offsets = self.by_producer[producer_id]
            del offsets[group, topic, partition]
            self._count -= 1
            if not offsets:
                del self.by_producer[producer_id]
        if not partitions:
            self._by_group.pop(group, None)

    def end(self, producer_id: int) -> list[PendingOffset]:
        """The transaction of this producer has ended: removes and returns its offsets."""
        ended = self.by_producer.pop(producer_id, {})
        self._count -= len(ended)
        for group, topic, partition in ended:
            partitions = self._by_group[group]
            producers = partitions[topic, partition]
            del producers[producer_id]
            if not producers:
                del partitions[topic, partition]
            if not partitions:
                del self._by_group[group]
        return list(ended.values())
