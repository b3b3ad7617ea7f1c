"""Reads partitions from given offsets on, without a group."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.errors import Refused
from ottla.client.reading.fetch import FetchLimits, fetch
from ottla.client.reading.offsets import list_offsets
from ottla.client.reading.visible_records import visible
from ottla.client.routing.outcomes import unwrap
from ottla.errors import ErrorCode
from ottla.protocol.batch import Record
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition

# For annotations only, so that the blocking client does not import asyncio.
if TYPE_CHECKING:
    from ottla.client.routing.router import Router


class GoneOffsets(NamedTuple):
    """A range of offsets that were deleted before they were read."""

    partition: TopicPartition
    first_offset: int
    next_offset: int


class UnreadableSpan(NamedTuple):
    """A batch with a valid checksum whose records cannot be decoded, as its producer sent it."""

    partition: TopicPartition
    first_offset: int
    next_offset: int
    reason: str

    def __str__(self) -> str:
        last_offset = self.next_offset - 1
        offsets = f"offset {last_offset}"
        if self.first_offset < last_offset:
            offsets = f"offsets {self.first_offset} to {last_offset}"
        return f"{self.partition}: the batch of {offsets} cannot be read ({self.reason})"


class FetchedRecords(NamedTuple):
    """The records of one fetch: per partition, in the order of their offsets."""

    records: dict[TopicPartition, list[Record]]
    gone: list[GoneOffsets]
    # These batches were skipped.
    unreadable: list[UnreadableSpan]


class PartitionReader:
    """Reads from `positions`, the offsets of the next records, which the owner may change."""

    def __init__(
        self, router: "Router", positions: Mapping[TopicPartition, int], limits: FetchLimits
    ) -> None:
        self.positions = dict(positions)
        self._router = router
        self._limits = limits

    async def read(self) -> FetchedRecords:
        """The next records that arrive within `max_wait_ms`. ClientError, CorruptBatch."""
        found = FetchedRecords({}, [], [])
        outcomes = await fetch(self._router, self.positions, self._limits)
        for partition, outcome in outcomes.items():
            if isinstance(outcome, Refused) and outcome.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                found.gone.append(await self._skip(partition, outcome))
                continue
            fetched = unwrap(outcome)
            seen = visible(fetched.records, fetched.aborted, self.positions[partition])
            self.positions[partition] = seen.next_offset
            found.unreadable.extend(UnreadableSpan(partition, *each) for each in seen.unreadable)
            if seen.records:
                found.records[partition] = seen.records
        return found

    async def _skip(self, partition: TopicPartition, refused: Refused) -> GoneOffsets:
        """Moves to the log start offset. A position beyond the end stays an error."""
        position = self.positions[partition]
        outcomes = await list_offsets(self._router, {partition: OffsetSpec.EARLIEST})
        beginning = unwrap(outcomes[partition]).offset
        if beginning <= position:
            raise refused
        self.positions[partition] = beginning
        return GoneOffsets(partition, position, beginning)
