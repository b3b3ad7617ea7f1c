"""The group coordinator's metrics: groups by protocol and state, and counts of its operations.

Kafka counts groups by state for the classic protocol, and by protocol and state elsewhere.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from ottla.metrics.collectors import Family, LabelledCollector, LabelledValue, ScalarCollector
from ottla.metrics.meters import GroupMeter

_MANAGER = "kafka_coordinator_group_groupmetadatamanager_"
_COORDINATOR = "kafka_server_group_coordinator_metrics_"
_CLASSIC = "classic"
_CONSUMER = "consumer"

# By the name of a classic group's state in DescribeGroups.
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
        "Completed rebalances of classic groups.",
    ),
    "consumer_rebalances": Family(
        "counter",
        f"{_COORDINATOR}consumer_group_rebalance_count",
        "New group epochs of consumer groups.",
    ),
    "load_ms_max": Family(
        "gauge",
        f"{_COORDINATOR}partition_load_time_max",
        "Milliseconds of the longest load of an offsets topic partition.",
    ),
    "load_ms_avg": Family(
        "gauge", f"{_COORDINATOR}partition_load_time_avg", "Milliseconds of the average load."
    ),
    "longest_load_stall_seconds": Family(
        "gauge",
        "ottla_group_load_longest_stall_seconds",
        "The longest time for which a load held the event loop.",
    ),
    "failures": Family(
        "counter",
        "ottla_group_coordinator_failures",
        "Failed loads and writes of offsets topic partitions.",
    ),
}
CLASSIC_GROUPS = Family("gauge", f"{_MANAGER}numgroups", "Groups of the classic protocol.")
GROUPS = Family("gauge", f"{_COORDINATOR}group_count", "Groups, by protocol.")
CONSUMER_GROUPS = Family(
    "gauge", f"{_COORDINATOR}consumer_group_count", "Groups of the consumer protocol, by state."
)
PARTITIONS = Family(
    "gauge", f"{_COORDINATOR}num_partitions", "Offsets topic partitions led here, by state."
)
MEMBERS = Family("gauge", "ottla_group_members", "Members of groups, by protocol.")


def group_collectors(meter: GroupMeter) -> Iterable[ScalarCollector | LabelledCollector]:
    """The collectors of all group metrics."""
    yield ScalarCollector(meter, COUNTED_FAMILIES)
    yield LabelledCollector(CLASSIC_GROUPS, lambda: [({}, _count(meter, _CLASSIC))])
    for state, members in CLASSIC_STATES.items():
        family = Family(
            "gauge", f"{_MANAGER}numgroups{state.lower()}", f"Classic groups {members}."
        )
        yield LabelledCollector(family, partial(_classic_groups_in_state, meter, state))
    yield LabelledCollector(GROUPS, lambda: _by("protocol", _by_protocol(meter)))
    yield LabelledCollector(
        CONSUMER_GROUPS,
        lambda: [
            ({"state": state.lower()}, meter.groups.get((_CONSUMER, state), 0))
            for state in CONSUMER_STATES
        ],
    )
    yield LabelledCollector(MEMBERS, lambda: _by("protocol", meter.members))
    yield LabelledCollector(PARTITIONS, lambda: _by("state", meter.partitions))


def _classic_groups_in_state(meter: GroupMeter, state: str) -> list[LabelledValue]:
    return [({}, meter.groups.get((_CLASSIC, state), 0))]


def _by_protocol(meter: GroupMeter) -> dict[str, int]:
    return {protocol: _count(meter, protocol) for protocol in (_CLASSIC, _CONSUMER)}


def _count(meter: GroupMeter, protocol: str) -> int:
    return sum(count for (each, _), count in meter.groups.items() if each == protocol)


def _by(label: str, counts: Mapping[str, int]) -> list[LabelledValue]:
    return [({label: name}, count) for name, count in counts.items()]
