"""`ottla consume --group`: as a member of a group, which remembers what was printed."""

from collections.abc import Sequence

from ottla.cli.records.consume import Wish, say_missing
from ottla.cli.records.record_printer import Printer
from ottla.cli.shared.offset_lookup import offsets_at
from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.client.consumer.group_reader import GroupReader
from ottla.client.reading.fetch import FetchLimits
from ottla.client.reading.partition_reader import Round
from ottla.client.routing.router import Router
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition


async def consume_in_group(router: Router, wish: Wish, group: str, write: Printer) -> None:
    """What was printed is committed, then more is read.

    Ends at what was the end of its partitions when it got them, or as `consume_records` does.
    """

    async def begin(partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return await offsets_at(router, partitions, wish.start, wish.isolation)

    await router.topic(wish.topic)
    left = wish.count_max
    ends: dict[TopicPartition, int] = {}
    limits = FetchLimits(isolation=wish.isolation)
    async with GroupReader(router, group, [wish.topic], begin=begin, limits=limits) as reader:
        while left != 0:
            if not wish.follows:
                new = [each for each in reader.positions if each not in ends]
                ends |= await offsets_at(router, new, OffsetSpec.LATEST, wish.isolation)
                if all(ends[each] <= position for each, position in reader.positions.items()):
                    return
            brought = await reader.read()
            count = _print(reader, brought, left, write)
            if left is not None:
                left -= count
            if not await reader.commit() and count:
                say(f"the group has changed: {counted(count, 'record')} may be read again")


def _print(reader: GroupReader, brought: Round, most: int | None, write: Printer) -> int:
    """Prints at most so many records, and goes back to the first that was not printed."""
    say_missing(brought)
    printed = 0
    for partition, records in brought.records.items():
        shown = records if most is None else records[: most - printed]
        write(partition, shown)
        printed += len(shown)
        if len(shown) < len(records):
            reader.positions[partition] = records[len(shown)].offset
    return printed
