"""`ottla consume --group`: consumes as a member of a group, and commits printed records."""

from collections.abc import Sequence

from ottla.cli.records.consume import ConsumeOptions, report_missing
from ottla.cli.records.record_printer import Printer
from ottla.cli.shared.offset_lookup import offsets_at
from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.client.consumer.group_reader import GroupReader
from ottla.client.reading.fetch import FetchLimits
from ottla.client.reading.partition_reader import FetchedRecords
from ottla.client.routing.router import Router
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition


async def consume_in_group(
    router: Router, options: ConsumeOptions, group: str, write: Printer
) -> None:
    """Prints records, commits their offsets, and reads more.

    Ends at the end that its partitions had when they were assigned, or as `consume_records` does.
    """

    async def begin(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return await offsets_at(router, partitions, options.start, options.isolation)

    await router.topic(options.topic)
    left = options.count_max
    ends: dict[TopicPartition, int] = {}
    limits = FetchLimits(isolation=options.isolation)
    async with GroupReader(
        router, group, [options.topic], start_offsets=begin, limits=limits
    ) as reader:
        while left != 0:
            if not options.follows:
                new = [each for each in reader.positions if each not in ends]
                ends |= await offsets_at(router, new, OffsetSpec.LATEST, options.isolation)
                if all(ends[each] <= position for each, position in reader.positions.items()):
                    return
            fetched = await reader.read()
            count = _print(reader, fetched, left, write)
            if left is not None:
                left -= count
            if not await reader.commit() and count:
                say(f"the group has changed: {counted(count, 'record')} may be read again")


def _print(reader: GroupReader, fetched: FetchedRecords, most: int | None, write: Printer) -> int:
    """Prints at most so many records, and seeks back to the first one not printed."""
    report_missing(fetched)
    printed = 0
    for partition, records in fetched.records.items():
        shown = records if most is None else records[: most - printed]
        write(partition, shown)
        printed += len(shown)
        if len(shown) < len(records):
            reader.positions[partition] = records[len(shown)].offset
    return printed
