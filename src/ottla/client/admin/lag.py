"""The lag of a consumer, in records and in time.

The lag in time is the age of the first record that was not read. So it also grows for a partition
without new records.
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from ottla.client.errors import ClientError
from ottla.client.reading.fetch import FetchLimits, fetch
from ottla.client.reading.offsets import list_offsets
from ottla.client.reading.visible_records import visible
from ottla.client.routing.outcomes import Outcomes, unwrap
from ottla.client.routing.router import Router
from ottla.errors import PeerError
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition

# A leader sends the first batch whole, however small the limit is, and no further ones.
_ONE_BATCH = FetchLimits(
    isolation=Isolation.READ_UNCOMMITTED, max_wait_ms=100, partition_max_bytes=1
)
# The limit of skipped batches without visible records, such as transaction markers.
_INVISIBLE_BATCHES_MAX = 20
# A group may have thousands of partitions: requests must not time out while they wait.
_CONCURRENT_FETCHES_MAX = 32


class Lag(NamedTuple):
    """The lag in a partition that ends at `end_offset`.

    `waiting_since_ms` is the timestamp of the first record that was not read: None if there is
    none, or if it cannot be determined.
    """

    end_offset: int
    records: int
    waiting_since_ms: int | None

    def age_ms(self, now_ms: int) -> int | None:
        """The age of that record; 0 if there is none, None if it is not known."""
        if self.records == 0:
            return 0
        return None if self.waiting_since_ms is None else max(0, now_ms - self.waiting_since_ms)


async def lags(router: Router, positions: Mapping[TopicPartition, int]) -> Outcomes[Lag]:
    """The lag of a consumer at these positions."""
    begins = await list_offsets(router, dict.fromkeys(positions, OffsetSpec.EARLIEST))
    ends = await list_offsets(router, dict.fromkeys(positions, OffsetSpec.LATEST))
    outcomes: Outcomes[Lag] = {}
    turns = asyncio.Semaphore(_CONCURRENT_FETCHES_MAX)

    async def measure(partition: TopicPartition, position: int) -> None:
        try:
            begin, end = unwrap(begins[partition]).offset, unwrap(ends[partition]).offset
            async with turns:
                since = await _first_time(router, partition, max(position, begin), end)
            outcomes[partition] = Lag(end, max(0, end - position), since)
        except ClientError as error:
            outcomes[partition] = error

    async with asyncio.TaskGroup() as tasks:
        for partition, position in positions.items():
            tasks.create_task(measure(partition, position), name=f"lag-{partition}")
    return outcomes


async def _first_time(
    router: Router, partition: TopicPartition, position: int, end: int
) -> int | None:
    """The timestamp of the first visible record from `position` on, if it can be read."""
    for _ in range(_INVISIBLE_BATCHES_MAX):
        if position >= end:
            return None
        try:
            outcome = unwrap((await fetch(router, {partition: position}, _ONE_BATCH))[partition])
            seen = visible(outcome.records, outcome.aborted, position)
        except (ClientError, PeerError):
            return None
        if seen.records:
            return seen.records[0].timestamp
        if seen.next_offset == position:
            return None
        position = seen.next_offset
    return None
