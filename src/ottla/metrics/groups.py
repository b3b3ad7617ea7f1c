"""What the group coordinator shows: of each group its protocol and state, and what was done.

Kafka keeps some of it by the classic protocol's states alone, and the rest by protocol.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from ottla.metrics.collectors import Family, Labelled, Reading, Scalars
from ottla.metrics.meters import GroupMeter

_MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
_COORDINATOR = "kafka_server_group_coordinator_metrics_"
_CLASSIC = "classic"
_CONSUMER = "consumer"

# By the name of a classic group's state, as DescribeGroups says it.
CLASSIC_STATES = {
    "PreparingRebalance": "whose members are joining",
    "CompletingRebalance": "whose members wait for their assignment",
    "Stable": "whose members have their assignment",
    "Empty": "without members",
    "Dead": "that are being removed",
}
CONSUMER_STATES = ("Empty", "Assigning", "Reconciling", "Stable", "Dead")

COUNTED_FAMILIES = {
    "offset_commits": Family(
        "counter", f"{_COORDINATOR}offset_commit_count", "Offsets that were committed."
    ),
    "offset_expirations": Family(
        "counter", f"{_COORDINATOR}offset_expiration_count", "Committed offsets that expired."
    ),
    "classic_rebalances": Family(
        "counter",
        f"{_COORDINATOR}group_completed_rebalance_count",
        "Generations of classic groups that got their assignment.",
    ),
    "consumer_rebalances": Family(
        "counter",
        f"{_COORDINATOR}consumer_group_rebalance_count",
        "New epochs of groups of the consumer protocol.",
    ),
    "load_ms_max": Family(
        "gauge",
        f"{_COORDINATOR}partition_load_time_max",
        "Milliseconds of the longest load of a partition of committed offsets.",
    ),
    "load_ms_avg": Family(
        "gauge", f"{_COORDINATOR}partition_load_time_avg", "Milliseconds of a load on average."
    ),
    "longest_load_stall_seconds": Family(
        "gauge",
        "ottla_group_load_longest_stall_seconds",
        "For how long a load has kept the event loop at most, before others had their turn.",
    ),
    "failures": Family(
        "counter",
        "ottla_group_coordinator_failures",
        "Partitions of committed offsets that could not be loaded or written.",
    ),
}
CLASSIC_GROUPS = Family("gauge", f"{_MANAGER}numgroups", "Groups of the classic protocol.")
GROUPS = Family("gauge", f"{_COORDINATOR}group_count", "Groups, by protocol.")
CONSUMER_GROUPS = Family(
    "gauge", f"{_COORDINATOR}consumer_group_count", "Groups of the consumer protocol, by state."
)
PARTITIONS = Family(
    "gauge", f"{_COORDINATOR}num_partitions", "Partitions of committed offsets led, by state."
)
MEMBERS = Family("gauge", "ottla_group_members", "Members of groups, by protocol.")


def group_collectors(meter: GroupMeter) -> Iterable[Scalars | Labelled]:
    """All families of groups."""
    yield Scalars(meter, COUNTED_FAMILIES)
    yield Labelled(CLASSIC_GROUPS, lambda: [({}, _count(meter, _CLASSIC))])
    for state, which in CLASSIC_STATES.items():
        family = Family("gauge", f"{_MANAGER}numgroups{state.lower()}", f"Classic groups {which}.")
        yield Labelled(family, partial(_classic_in, meter, state))
    yield Labelled(GROUPS, lambda: _by("protocol", _by_protocol(meter)))
    yield Labelled(
        CONSUMER_GROUPS,
        lambda: [
            ({"state": state.lower()}, meter.groups.get((_CONSUMER, state), 0))
            for state in CONSUMER_STATES
        ],
    )
    yield Labelled(MEMBERS, lambda: _by("protocol", meter.members))
    yield Labelled(PARTITIONS, lambda: _by("state", meter.partitions))


def _classic_in(meter: GroupMeter, state: str) -> list[Reading]:
    return [({}, meter.groups.get((_CLASSIC, state), 0))]


def _by_protocol(meter: GroupMeter) -> dict[str, int]:
    return {protocol: _count(meter, protocol) for protocol in (_CLASSIC, _CONSUMER)}


def _count(meter: GroupMeter, protocol: str) -> int:
    return sum(count for (each, _), count in meter.groups.items() if each == protocol)


def _by(label: str, counts: Mapping[str, int]) -> list[Reading]:
    return [({label: name}, count) for name, count in counts.items()]
