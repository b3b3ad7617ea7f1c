"""Reads partitions from given offsets on, round by round, without a group."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.errors import Refused
from ottla.client.reading.fetch import FetchLimits, fetch
from ottla.client.reading.offsets import list_offsets
from ottla.client.reading.visible_records import visible
from ottla.client.routing.outcomes import answered
from ottla.errors import ErrorCode
from ottla.protocol.batch import Record
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition

# Named and not used: who asks by other means does without asyncio.
if TYPE_CHECKING:
    from ottla.client.routing.router import Router


class Gone(NamedTuple):
    """Records that were deleted before they could be read."""

    partition: TopicPartition
    first_offset: int
    next_offset: int


class UnreadableSpan(NamedTuple):
    """A batch whose records cannot be read, though it is as its producer sent it."""

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


class Round(NamedTuple):
    """What one round brought: records in the order of their offsets, partition by partition."""

    records: dict[TopicPartition, list[Record]]
    gone: list[Gone]
    # They were stepped over.
    unreadable: list[UnreadableSpan]


class Reader:
    """Goes on from `positions`, which are those of the next records and may be changed."""

    def __init__(
        self, router: "Router", positions: Mapping[TopicPartition, int], limits: FetchLimits
    ) -> None:
        self.positions = dict(positions)
        self._router = router
        self._limits = limits

    async def read(self) -> Round:
        """The next records, if some come within `max_wait_ms`. ClientError, CorruptBatch."""
        found = Round({}, [], [])
        outcomes = await fetch(self._router, self.positions, self._limits)
        for partition, outcome in outcomes.items():
            if isinstance(outcome, Refused) and outcome.code == ErrorCode.OFFSET_OUT_OF_RANGE:
                found.gone.append(await self._skip(partition, outcome))
                continue
            fetched = answered(outcome)
            seen = visible(fetched.records, fetched.aborted, self.positions[partition])
            self.positions[partition] = seen.next_offset
            found.unreadable.extend(UnreadableSpan(partition, *each) for each in seen.unreadable)
            if seen.records:
                found.records[partition] = seen.records
        return found

    async def _skip(self, partition: TopicPartition, refused: Refused) -> Gone:
        """On to where the partition begins now; a position behind its end stays an error."""
        position = self.positions[partition]
        outcomes = await list_offsets(self._router, {partition: OffsetSpec.EARLIEST})
        beginning = answered(outcomes[partition]).offset
        if beginning <= position:
            raise refused
        self.positions[partition] = beginning
        return Gone(partition, position, beginning)
