"""How far a reader is behind: in records, and in time.

In time it is the age of the first record that was not read: a partition to which nobody writes any
more shows how long its last records have been waiting.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.errors import ClientError
from ottla.client.reading.fetch import FetchLimits, fetch
from ottla.client.reading.offsets import list_offsets
from ottla.client.reading.visible_records import visible
from ottla.client.routing.outcomes import Outcomes, answered
from ottla.client.routing.router import Router
from ottla.errors import PeerError
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition

# A leader sends its first batch whole, however small this is, and then no more.
_ONE_BATCH = FetchLimits(
    isolation=Isolation.READ_UNCOMMITTED, max_wait_ms=100, partition_max_bytes=1
)
# Batches in which a reader sees nothing, such as markers of transactions, that are passed over.
_UNSEEN_BATCHES_MAX = 20
# A group may have thousands of partitions: those who wait for their turn must not time out.
_LOOKS_AT_ONCE_MAX = 32


class Lag(NamedTuple):
    """How far behind, of a partition that ends at `end_offset`.

    `waiting_since_ms` is the time of the first record that was not read: None if all were, or if
    it cannot be told.
    """

    end_offset: int
    records: int
    waiting_since_ms: int | None

    def age_ms(self, now_ms: int) -> int | None:
        """How long that record has been waiting; 0 if there is none."""
        if self.records == 0:
            return 0
        return None if self.waiting_since_ms is None else max(0, now_ms - self.waiting_since_ms)


async def lags(router: Router, positions: Mapping[TopicPartition, int]) -> Outcomes[Lag]:
    """How far a reader is behind that reads on from these offsets."""
    begins = await list_offsets(router, dict.fromkeys(positions, OffsetSpec.EARLIEST))
    ends = await list_offsets(router, dict.fromkeys(positions, OffsetSpec.LATEST))
    outcomes: Outcomes[Lag] = {}
    turns = asyncio.Semaphore(_LOOKS_AT_ONCE_MAX)

    async def look(partition: TopicPartition, position: int) -> None:
        try:
            begin, end = answered(begins[partition]).offset, answered(ends[partition]).offset
            async with turns:
                since = await _first_time(router, partition, max(position, begin), end)
            outcomes[partition] = Lag(end, max(0, end - position), since)
        except ClientError as error:
            outcomes[partition] = error

    async with asyncio.TaskGroup() as looks:
        for partition, position in positions.items():
            looks.create_task(look(partition, position), name=f"lag-{partition}")
    return outcomes


async def _first_time(
    router: Router, partition: TopicPartition, position: int, end: int
) -> int | None:
    """The time of the first record from here on, if one is there and can be read."""
    for _ in range(_UNSEEN_BATCHES_MAX):
        if position >= end:
            return None
        try:
            outcome = answered((await fetch(router, {partition: position}, _ONE_BATCH))[partition])
            seen = visible(outcome.records, outcome.aborted, position)
        except (ClientError, PeerError):
            return None
        if seen.records:
            return seen.records[0].timestamp
        if seen.next_offset == position:
            return None
        position = seen.next_offset
    return None
