"""`ottla consume`: reads a topic from a place on, to its end or for ever."""

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.cli.records.record_printer import Printer
from ottla.cli.shared.offset_lookup import chosen_partitions, offsets_at
from ottla.cli.shared.offsets_spec import Place
from ottla.cli.shared.output import say
from ottla.cli.shared.plurals import counted
from ottla.client.reading.fetch import FetchLimits
from ottla.client.reading.partition_reader import Reader, Round
from ottla.client.routing.router import Router
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the user wants to see."""

    topic: str
    start: Place
    partitions: Sequence[int] | None
    follows: bool
    count_max: int | None
    isolation: Isolation


async def consume_records(router: Router, wish: Wish, write: Printer) -> None:
    """Ends at what is the end of each partition now, or after `count_max` records, or never."""
    topic = await router.topic(wish.topic)
    partitions = chosen_partitions(topic, wish.partitions)
    ends = await offsets_at(router, partitions, OffsetSpec.LATEST, wish.isolation)
    starts = await offsets_at(router, partitions, wish.start, wish.isolation)
    reader = Reader(router, starts, FetchLimits(isolation=wish.isolation))
    left = wish.count_max
    while left != 0:
        if not wish.follows:
            reader.positions = _before(reader.positions, ends)
        if not reader.positions:
            return
        brought = await reader.read()
        say_missing(brought)
        for partition, records in brought.records.items():
            if not wish.follows:
                records = [record for record in records if record.offset < ends[partition]]
            write(partition, records[:left])
            if left is not None:
                left -= len(records[:left])


def say_missing(brought: Round) -> None:
    """What a reader might expect to see, and does not."""
    for gone in brought.gone:
        count = counted(gone.next_offset - gone.first_offset, "record")
        say(f"{gone.partition}: {count} deleted before being read")
    for span in brought.unreadable:
        say(str(span))


def _before(
    positions: dict[TopicPartition, int], ends: dict[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """The positions in partitions whose end is not reached."""
    return {each: position for each, position in positions.items() if position < ends[each]}
