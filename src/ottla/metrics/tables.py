"""The meters of topics and partitions, in tables with a limit each.

A snapshot is a list of references. It stays valid during a scrape while topics are created and
deleted, and it reads no meter.
"""

from typing import NamedTuple

from ottla.metrics.meters import MeasuredLog, TopicCounters

# No topic can have this name.
OTHER_TOPICS = "(other)"
TOPIC_COUNTERS = tuple(name for name in TopicCounters.__slots__ if name != "name")


class TopicsSnapshot(NamedTuple):
    live: list[TopicCounters]
    # The counts of deleted topics: without them the broker's totals would decrease.
    deleted: dict[str, int]


class TopicTable:
    """Counters by topic. Topics beyond the first `topics_max` share one set of counters."""

    __slots__ = ("_deleted", "_others", "_topics", "_topics_max")

    def __init__(self, topics_max: int) -> None:
        self._topics_max = topics_max
        self._topics: dict[str, TopicCounters] = {}
        self._others: TopicCounters | None = None
        self._deleted = dict.fromkeys(TOPIC_COUNTERS, 0)

    def get(self, name: str) -> TopicCounters:
        """The topic's counters, created if there are none."""
        counters = self._topics.get(name)
        if counters is not None:
            return counters
        if len(self._topics) >= self._topics_max:
            self._others = self._others or TopicCounters(OTHER_TOPICS)
            return self._others
        self._topics[name] = TopicCounters(name)
        return self._topics[name]

    def remove(self, name: str) -> None:
        """Hides a deleted topic; its counts stay in the broker's totals."""
        counters = self._topics.pop(name, None)
        if counters is not None:
            for counter in TOPIC_COUNTERS:
                self._deleted[counter] += getattr(counters, counter)

    def snapshot(self) -> TopicsSnapshot:
        live = list(self._topics.values())
        if self._others is not None:
            live.append(self._others)
        return TopicsSnapshot(live, dict(self._deleted))


class PartitionRow(NamedTuple):
    topic: str
    partition: int
    log: MeasuredLog


class PartitionTable:
    """The logs shown by partition. Beyond the first `partitions_max`, logs are only counted."""

    __slots__ = ("_left_out", "_partitions_max", "_rows")

    def __init__(self, partitions_max: int) -> None:
        self._partitions_max = partitions_max
        self._rows: dict[tuple[str, int], PartitionRow] = {}
        self._left_out: set[tuple[str, int]] = set()

    @property
    def left_out_count(self) -> int:
        return len(self._left_out)

    def add(self, topic: str, partition: int, log: MeasuredLog) -> None:
        """Shows this log for the partition from now on."""
        key = (topic, partition)
        if key in self._rows or len(self._rows) < self._partitions_max:
            self._rows[key] = PartitionRow(topic, partition, log)
            self._left_out.discard(key)
        else:
            self._left_out.add(key)

    def remove(self, topic: str, partition: int) -> None:
        self._rows.pop((topic, partition), None)
        self._left_out.discard((topic, partition))

    def snapshot(self) -> list[PartitionRow]:
        return list(self._rows.values())
