"""How far the next batch of a stream gets, and what was lost on the way. Does no I/O."""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.protocol.topic_partition import TopicPartition
from ottla.spark.offsets import Offsets
from ottla.spark.plan import shared


class Limits(NamedTuple):
    """How much one batch reads: at most, and at least unless it has waited for long enough."""

    rows_max: int | None = None
    rows_min: int | None = None
    delay_max_ms: int = 15 * 60_000


class Step(NamedTuple):
    """The end of the next batch, and each thing that will never be read, in words."""

    end: Offsets
    losses: list[str]


def unsettled(
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    renewed: Collection[str],
) -> list[TopicPartition]:
    """Partitions of which it must be known where they begin: new ones, and those that went back."""
    return [
        partition
        for partition, end in latest.items()
        if partition not in start or start[partition] > end or partition.topic in renewed
    ]


def step(
    start: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    beginnings: Mapping[TopicPartition, int],
    renewed: Collection[str],
    rows_max: int | None,
) -> Step:
    """From `start` towards `latest`, by `rows_max` offsets at most.

    `beginnings` are those of the `unsettled` partitions. One of a topic that was made anew, or that
    now ends before what was read of it, is set back to its beginning: this batch reads nothing of
    it, the next one all that it has. One that is gone is left out, and is new if it comes back.
    """
    losses = [f"{partition} is gone" for partition in start if partition not in latest]
    back: Offsets = {}
    onward: Offsets = {}
    ends: Offsets = {}
    for partition, end in latest.items():
        position = start.get(partition)
        if position is None:
            onward[partition], ends[partition] = beginnings[partition], end
        elif partition.topic in renewed:
            losses.append(f"the topic of {partition} was deleted and made anew")
            back[partition] = beginnings[partition]
        elif position > end:
            losses.append(f"{partition} was read up to {position}, but now ends at {end}")
            back[partition] = beginnings[partition]
        else:
            onward[partition], ends[partition] = position, end
    if rows_max is not None:
        ends = shared(onward, ends, rows_max)
    return Step(dict(sorted((back | ends).items())), losses)


class Patience:
    """Holds a batch back until it is worth its while, or has waited for long enough."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._last_batch_ms: int | None = None

    def holds_back(
        self,
        start: Mapping[TopicPartition, int],
        end: Mapping[TopicPartition, int],
        now_ms: int,
    ) -> bool:
        """Whether fewer offsets than the least lie before `end`; the first batch never waits."""
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
