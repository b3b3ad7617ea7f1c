"""Waits until the group coordinator answers for all groups."""

import time
from collections.abc import Sequence

from benchmarks.loads.asking import Asking
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed
from ottla.coordinators.runtime.key_hash import java_hash
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_fetch import Group, GroupResult, OffsetFetchRequest

FIND_COORDINATOR_VERSION, OFFSET_FETCH_VERSION = 2, 8
# The default of both brokers.
OFFSETS_PARTITIONS = 50
MADE_S_MAX = 60.0
PAUSE_S = 0.005


def await_coordinator(peer: Peer) -> None:
    """Waits for the coordinator; the first request creates `__consumer_offsets`."""
    deadline = time.monotonic() + MADE_S_MAX
    with Asking(peer) as asking:
        asking.ask(FindCoordinatorRequest(key="any"), FIND_COORDINATOR_VERSION)
        await_answers(asking, [f"group-{number}" for number in range(1000)], deadline)


def await_answers(asking: Asking, groups: Sequence[str], deadline: float) -> None:
    """Waits until all groups answer. One group per partition of `__consumer_offsets` is asked."""
    asked = list({java_hash(group) % OFFSETS_PARTITIONS: group for group in groups}.values())
    while any(group.error_code for group in fetch_offsets(asking, asked)):
        if time.monotonic() > deadline:
            raise LoadFailed("not all groups answer")
        time.sleep(PAUSE_S)


def fetch_offsets(asking: Asking, groups: Sequence[str]) -> Sequence[GroupResult]:
    """All offsets that these groups have committed."""
    request = OffsetFetchRequest(
        groups=tuple(Group(group_id=group, topics=None) for group in groups)
    )
    found: Sequence[GroupResult] = asking.ask(request, OFFSET_FETCH_VERSION).groups
    return found
