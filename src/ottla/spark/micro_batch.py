"""The end offsets of a stream's next micro-batch, and the data lost before it. Does no I/O."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.offsets import Offsets
from ottla.spark.plan import share_by_lag


class TriggerLimits(NamedTuple):
    """The maximum offsets per batch, and the minimum unless the maximum delay has passed."""

    rows_max: int | None = None
    rows_min: int | None = None
    delay_max_ms: int = 15 * 60_000


class NextBatch(NamedTuple):
    """The end offsets of the next batch, and a description of each data loss."""

    end: Offsets
    losses: list[str]


def partitions_without_position(
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    recreated: Collection[str],
) -> list[TopicPartition]:
    """The partitions that are read from their beginning: new, recreated and truncated ones."""
    return [
        partition
        for partition, end in latest.items()
        if partition not in start or start[partition] > end or partition.topic in recreated
    ]


def next_batch(
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    beginnings: Mapping[TopicPartition, int],
    recreated: Collection[str],
    rows_max: int | None,
) -> NextBatch:
    """The batch from `start` towards `latest`, of at most `rows_max` offsets.

    `beginnings` has the beginning offsets of `partitions_without_position`. A partition of a
    recreated topic, or one that now ends before its position, is reset to its beginning: this batch
    reads none of it, and the next batch all of it. A deleted partition is left out; if it
    reappears, it is new.
    """
    losses = [f"{partition} was deleted" for partition in start if partition not in latest]
    resets: Offsets = {}
    positions: Offsets = {}
    ends: Offsets = {}
    for partition, end in latest.items():
        position = start.get(partition)
        if position is None:
            positions[partition], ends[partition] = beginnings[partition], end
        elif partition.topic in recreated:
            losses.append(f"the topic of {partition} was deleted and recreated")
            resets[partition] = beginnings[partition]
        elif position > end:
            losses.append(f"{partition} was read up to {position}, but now ends at {end}")
            resets[partition] = beginnings[partition]
        else:
            positions[partition], ends[partition] = position, end
    if rows_max is not None:
        ends = share_by_lag(positions, ends, rows_max)
    return NextBatch(dict(sorted((resets | ends).items())), losses)


class TriggerDelay:
    """Delays a batch until it has the minimum number of offsets or the maximum delay has passed."""

    def __init__(self, limits: TriggerLimits) -> None:
        self._limits = limits
        self._last_batch_ms: int | None = None

    def should_wait(
        self,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        now_ms: int,
    ) -> bool:
        """Whether the batch has fewer offsets than the minimum. The first batch never waits."""
        fresh = sum(max(0, until - start.get(each, 0)) for each, until in end.items())
        if fresh == 0 or self._limits.rows_min is None:
            return False
        is_due = (
            self._last_batch_ms is None or now_ms - self._last_batch_ms >= self._limits.delay_max_ms
        )
        if fresh < self._limits.rows_min and not is_due:
            return True
        self._last_batch_ms = now_ms
        return False
