"""Refreshes the gauges of groups by protocol and state.

A group's state depends on each of its members, so this does not run on every scrape.
"""

import asyncio
from collections import Counter

from ottla.coordinators.group.coordinator import GroupShards
from ottla.metrics.meters import GroupMeter
from ottla.seams.clock import Clock

PERIOD_S = 10.0
SLICE_NS_MAX = 1_000_000
# Groups with offsets that never had a member count as classic, as in Kafka.
_WITHOUT_MEMBERS = ("classic", "Empty")


async def run_group_gauges(shards: GroupShards, meter: GroupMeter, clock: Clock) -> None:
    """Refreshes the gauges of groups for ever."""
    while True:
        await refresh_group_gauges(shards, meter, clock)
        await asyncio.sleep(PERIOD_S)


async def refresh_group_gauges(shards: GroupShards, meter: GroupMeter, clock: Clock) -> None:
    """Counts all groups once. Yields to the event loop after each millisecond."""
    groups: Counter[tuple[str, str]] = Counter()
    members = Counter(dict.fromkeys(("classic", "consumer"), 0))
    partitions = Counter(dict.fromkeys(("loading", "active"), 0))
    slice_ends_ns = clock.steady_ns() + SLICE_NS_MAX
    for shard in shards:
        partitions["active" if shard.is_loaded else "loading"] += 1
        machine = shard.machine
        groups[_WITHOUT_MEMBERS] += len(machine) - len(machine.groups)
        for group in list(machine.groups.values()):
            groups[group.group_type, group.state_name] += 1
            members[group.group_type] += group.member_count
            if clock.steady_ns() >= slice_ends_ns:
                await asyncio.sleep(0)
                slice_ends_ns = clock.steady_ns() + SLICE_NS_MAX
    meter.groups, meter.members, meter.partitions = groups, members, partitions
