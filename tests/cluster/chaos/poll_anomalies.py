"""Anomalies of the order in which consumers polled, and of what no member of a group ever polled.

A member reads a partition from its committed offset on, without a gap and never backwards, until
the partition is revoked. After a rebalance a group may read again what it had not committed.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.cluster.chaos.anomaly import Anomaly, FinalRead, Kind, by_partition
from tests.cluster.chaos.history import (
    Assigned,
    Event,
    OffsetsCommitted,
    Partition,
    Polled,
    Record,
    Revoked,
)


class Log:
    """The records of the final read, to be asked for those between two offsets."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = {
            partition: sorted(found, key=lambda record: record.offset)
            for partition, found in by_partition(records).items()
        }
        self._offsets = {
            partition: [record.offset for record in found]
            for partition, found in self._records.items()
        }

    def between(self, partition: Partition, after: int, before: int) -> list[Record]:
        offsets = self._offsets.get(partition, [])
        first, end = bisect_right(offsets, after), bisect_left(offsets, before)
        return self._records.get(partition, [])[first:end]


@dataclass(slots=True)
class Position:
    """How far a client is in a partition. `polls` numbers the poll that brought it there."""

    assigned_s: float
    offset: int | None = None
    polls: int = 0


@dataclass(slots=True)
class Commits:
    """The offsets that a group knows to be committed, with the times of the acknowledgements."""

    acknowledged: dict[tuple[str, Partition], list[tuple[float, int]]] = field(default_factory=dict)

    def note(self, event: OffsetsCommitted) -> None:
        for partition, offset in event.offsets:
            found = self.acknowledged.setdefault((event.group, partition), [])
            found.append((event.time_s, offset))

    def before(self, group: str, partition: Partition, time_s: float) -> int:
        """The highest one. Committed offsets of a group only grow: nobody goes back on purpose."""
        found = self.acknowledged.get((group, partition), [])
        return max((offset for at, offset in found if at < time_s), default=0)


def poll_anomalies(events: Sequence[Event], final: FinalRead) -> Iterator[Anomaly]:
    """`events` are in the order of each client."""
    logs = {True: Log(final.committed), False: Log(final.uncommitted)}
    commits = Commits()
    for event in events:
        if isinstance(event, OffsetsCommitted):
            commits.note(event)
    positions: dict[tuple[str, Partition], Position] = {}
    for polls, event in enumerate(events, start=1):
        match event:
            case Assigned() | Revoked():
                for partition in event.partitions:
                    positions[event.client, partition] = Position(event.time_s)
            case Polled():
                log = logs[event.is_read_committed]
                for record in event.records:
                    at = positions.setdefault((event.client, record.where), Position(event.time_s))
                    yield from _step(event, record, at, polls, log, commits)
                    at.offset, at.polls = record.offset, polls


def _step(
    event: Polled, record: Record, at: Position, polls: int, log: Log, commits: Commits
) -> Iterator[Anomaly]:
    if at.offset is None:
        if event.group is not None:
            yield from _lost_commit(
                event, record, commits.before(event.group, record.where, at.assigned_s)
            )
        return
    is_internal = at.polls == polls
    if record.offset <= at.offset:
        yield Anomaly(
            Kind.INT_NONMONOTONIC_POLL if is_internal else Kind.NONMONOTONIC_POLL,
            (record.value,),
            record.where,
            (at.offset, record.offset),
            (event.client,),
        )
        return
    skipped = log.between(record.where, at.offset, record.offset)
    if skipped:
        yield Anomaly(
            Kind.INT_POLL_SKIP if is_internal else Kind.POLL_SKIP,
            tuple(each.value for each in skipped),
            record.where,
            (at.offset, record.offset),
            (event.client,),
        )


def _lost_commit(event: Polled, record: Record, committed: int) -> Iterator[Anomaly]:
    if record.offset < committed:
        yield Anomaly(
            Kind.LOST_COMMIT,
            (record.value,),
            record.where,
            (committed, record.offset),
            (event.client,),
            f"{event.group} had committed offset {committed}, and began again before it",
        )


def unseen(
    events: Sequence[Event], final: FinalRead, groups: Mapping[str, Collection[str]]
) -> Iterator[Anomaly]:
    """Records that no member of a group polled, per group and partition."""
    seen: dict[str, set[str]] = {group: set() for group in groups}
    for event in events:
        if isinstance(event, Polled) and event.group in seen:
            seen[event.group].update(record.value for record in event.records)
    for group, topics in groups.items():
        missed = (
            each
            for each in final.committed
            if each.topic in topics and each.value not in seen[group]
        )
        for partition, records in by_partition(missed).items():
            yield Anomaly(
                Kind.UNSEEN,
                tuple(record.value for record in records),
                partition,
                tuple(record.offset for record in records),
                (group,),
            )
