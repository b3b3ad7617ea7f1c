"""`ottla consume`: reads a topic from a position to its end, or follows it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.cli.records.record_printer import Printer
from ottla.cli.shared.offset_lookup import chosen_partitions, offsets_at
from ottla.cli.shared.offsets_spec import Position
from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.client.reading.fetch import FetchLimits
from ottla.client.reading.partition_reader import FetchedRecords, PartitionReader
from ottla.client.routing.router import Router
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeOptions:
    """The options of `ottla consume`."""

    topic: str
    start: Position
    partitions: Sequence[int] | None
    follows: bool
    count_max: int | None
    isolation: Isolation


async def consume_records(router: Router, options: ConsumeOptions, write: Printer) -> None:
    """Ends at the current end of each partition or after `count_max` records, unless it follows."""
    topic = await router.topic(options.topic)
    partitions = chosen_partitions(topic, options.partitions)
    ends = await offsets_at(router, partitions, OffsetSpec.LATEST, options.isolation)
    starts = await offsets_at(router, partitions, options.start, options.isolation)
    reader = PartitionReader(router, starts, FetchLimits(isolation=options.isolation))
    left = options.count_max
    while left != 0:
        if not options.follows:
            reader.positions = _before(reader.positions, ends)
        if not reader.positions:
            return
        fetched = await reader.read()
        report_missing(fetched)
        for partition, records in fetched.records.items():
            if not options.follows:
                records = [record for record in records if record.offset < ends[partition]]
            write(partition, records[:left])
            if left is not None:
                left -= len(records[:left])


def report_missing(fetched: FetchedRecords) -> None:
    """Prints which records could not be read."""
    for gone in fetched.gone:
        count = counted(gone.next_offset - gone.first_offset, "record")
        say(f"{gone.partition}: {count} deleted before being read")
    for span in fetched.unreadable:
        say(str(span))


def _before(
    positions: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The positions in partitions whose end has not been reached."""
    return {each: position for each, position in positions.items() if position < ends[each]}
