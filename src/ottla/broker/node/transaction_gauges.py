"""Refreshes the gauges of transactional ids by state."""

import asyncio
from collections import Counter

from ottla.coordinators.txn.coordinator import TransactionShards
from ottla.metrics.meters import TransactionMeter
from ottla.seams.clock import Clock

PERIOD_S = 10.0
SLICE_NS_MAX = 1_000_000


async def run_transaction_gauges(
    shards: TransactionShards, meter: TransactionMeter, clock: Clock
) -> None:
    """Refreshes the gauges for ever."""
    while True:
        await refresh_transaction_gauges(shards, meter, clock)
        await asyncio.sleep(PERIOD_S)


async def refresh_transaction_gauges(
    shards: TransactionShards, meter: TransactionMeter, clock: Clock
) -> None:
    """Counts all transactional ids once. Yields to the event loop after each millisecond."""
    # States that no id has any more are shown as 0.
    states = Counter(dict.fromkeys(meter.states, 0))
    slice_ends_ns = clock.steady_ns() + SLICE_NS_MAX
    for shard in shards:
        for transaction in list(shard.machine.transactions.values()):
            states[transaction.state.kafka_name] += 1
            if clock.steady_ns() >= slice_ends_ns:
                await asyncio.sleep(0)
                slice_ends_ns = clock.steady_ns() + SLICE_NS_MAX
    meter.states = states
