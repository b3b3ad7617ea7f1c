"""The checker of histories, after Jepsen's Kafka workload. It decides, and does no I/O."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tests.cluster.chaos.anomaly import Anomaly, FinalRead
from tests.cluster.chaos.derived_anomalies import copy_anomalies, count_anomalies
from tests.cluster.chaos.history import Acknowledged, Event, Partition
from tests.cluster.chaos.poll_anomalies import poll_anomalies, unseen
from tests.cluster.chaos.write_anomalies import Writes, write_anomalies


@dataclass(frozen=True, slots=True)
class Expectations:
    """What clients were there to do.

    `groups` have to poll every committed record of their topics. `copies` and `counts` are pairs of
    a source and its target; the records of the targets of `counts` are in no history.
    """

    groups: Mapping[str, Collection[str]] = field(default_factory=dict)
    copies: Sequence[tuple[str, str]] = ()
    counts: Sequence[tuple[str, str]] = ()


def check(
    events: Sequence[Event], final: FinalRead, expected: Expectations | None = None
) -> list[Anomaly]:
    """All anomalies. `events` are in the order of each client; clients may follow each other."""
    expected = expected or Expectations()
    own = final.without(target for _, target in expected.counts)
    found = [*write_anomalies(Writes.of(events), own)]
    found += poll_anomalies(events, own)
    found += unseen(events, own, expected.groups)
    for source, target in expected.copies:
        found += copy_anomalies(final, source, target)
    for source, target in expected.counts:
        found += count_anomalies(final, source, target)
    return found


def longest_gap_s(events: Iterable[Event], topics: Collection[str], since_s: float = 0.0) -> float:
    """The longest time between two acknowledgements of one partition of these topics.

    Only gaps that ended after `since_s` count.
    """
    times: dict[Partition, list[float]] = {}
    for event in events:
        if isinstance(event, Acknowledged) and event.partition.topic in topics:
            times.setdefault(event.partition, []).append(event.time_s)
    gaps = (
        later - earlier
        for found in map(sorted, times.values())
        for earlier, later in pairwise(found)
        if later > since_s
    )
    return max(gaps, default=0.0)
