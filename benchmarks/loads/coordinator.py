"""Waits until the coordinators of groups and of transactions answer for all their keys."""

import time
from collections.abc import Sequence

from benchmarks.loads.asking import Asking
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed
from ottla.coordinators.runtime.key_hash import java_hash
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest, Transaction
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.offset_fetch import Group, GroupResult, OffsetFetchRequest

FIND_COORDINATOR_VERSION, OFFSET_FETCH_VERSION, DESCRIBE_TRANSACTIONS_VERSION = 2, 8, 0
TRANSACTION_KEY_TYPE = 1
UNKNOWN_TRANSACTIONAL_ID = 105
# The default of both brokers, for `__consumer_offsets` and `__transaction_state`.
COORDINATOR_PARTITIONS = 50
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
    asked = one_per_partition(groups)
    while any(group.error_code for group in fetch_offsets(asking, asked)):
        if time.monotonic() > deadline:
            raise LoadFailed("not all groups answer")
        time.sleep(PAUSE_S)


def one_per_partition(keys: Sequence[str]) -> list[str]:
    """One key for each partition of the coordinator's topic that has one."""
    return list({java_hash(key) % COORDINATOR_PARTITIONS: key for key in keys}.values())


def fetch_offsets(asking: Asking, groups: Sequence[str]) -> Sequence[GroupResult]:
    """All offsets that these groups have committed."""
    request = OffsetFetchRequest(
        groups=tuple(Group(group_id=group, topics=None) for group in groups)
    )
    found: Sequence[GroupResult] = asking.ask(request, OFFSET_FETCH_VERSION).groups
    return found


def await_transaction_coordinator(peer: Peer) -> None:
    """Waits for the coordinator; the first request creates `__transaction_state`."""
    deadline = time.monotonic() + MADE_S_MAX
    request = FindCoordinatorRequest(key="any", key_type=TRANSACTION_KEY_TYPE)
    with Asking(peer) as asking:
        asking.ask(request, FIND_COORDINATOR_VERSION)
        await_described(asking, [f"transactional-{number}" for number in range(1000)], deadline)


def await_described(asking: Asking, transactional_ids: Sequence[str], deadline: float) -> None:
    """Waits until the coordinators of all transactional ids answer, known to them or not."""
    asked = one_per_partition(transactional_ids)
    expected = {0, UNKNOWN_TRANSACTIONAL_ID}
    while any(found.error_code not in expected for found in describe(asking, asked)):
        if time.monotonic() > deadline:
            raise LoadFailed("not all transaction coordinators answer")
        time.sleep(PAUSE_S)


def describe(asking: Asking, transactional_ids: Sequence[str]) -> Sequence[Transaction]:
    request = DescribeTransactionsRequest(transactional_ids=tuple(transactional_ids))
    found: Sequence[Transaction] = asking.ask(
        request, DESCRIBE_TRANSACTIONS_VERSION
    ).transaction_states
    return found
