"""What is measured of groups by looking, now and then: of which protocol and state they are.

Whether a group is settled is told by its members, one by one, so this is not done for each scrape.
"""

import asyncio
from collections import Counter

from ottla.coordinators.group.coordinator import GroupShards
from ottla.metrics.meters import GroupMeter
from ottla.seams.clock import Clock

PERIOD_S = 10.0
SLICE_NS_MAX = 1_000_000
# Groups that committed and never had a member are shown as classic ones, as Kafka does.
_WITHOUT_MEMBERS = ("classic", "Empty")


async def watch_groups(shards: GroupShards, meter: GroupMeter, clock: Clock) -> None:
    """Keeps the gauges of groups; does not end."""
    while True:
        await look_at_groups(shards, meter, clock)
        await asyncio.sleep(PERIOD_S)


async def look_at_groups(shards: GroupShards, meter: GroupMeter, clock: Clock) -> None:
    """Looks at every group once; after a millisecond of it others have their turn."""
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
