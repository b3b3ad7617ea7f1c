"""Where to begin and to end in a topic, as users say it."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from ottla.client.blocking.client import BlockingClient
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition

# "earliest", "latest", an offset of every partition, a time, or an offset for each of some.
Place = str | int | datetime | Mapping[int, int]

_NAMED = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}


def check_place(place: Place) -> None:
    """TypeError or ValueError for what is no place."""
    match place:
        case bool():
            raise TypeError(f"{place} is no place in a topic")
        case str() if place not in _NAMED:
            raise ValueError(f"{place!r} is no place in a topic: there are earliest and latest")
        case int() if place < 0:
            raise ValueError(f"{place} is no offset")
        case datetime() if place.tzinfo is None:
            raise ValueError(f"{place} has no time zone: use datetime(..., tzinfo=timezone.utc)")
        case str() | int() | datetime():
            return
        case Mapping():
            for partition, offset in place.items():
                _check_entry(partition, offset)
        case _:
            raise TypeError(f"{place!r} is no place in a topic")


def _check_entry(partition: object, offset: object) -> None:
    for number in (partition, offset):
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise ValueError(f"{{{partition!r}: {offset!r}}} is no offset of a partition")


def resolve(
    client: BlockingClient,
    partitions: Sequence[TopicPartition],
    place: Place,
    isolation: Isolation,
    default: OffsetSpec,
) -> dict[TopicPartition, int]:
    """The offset of each partition; `default` is for those that a mapping does not name.

    A time is that of the first record not before it or, if none is as late, the end.
    """
    if isinstance(place, int):
        return dict.fromkeys(partitions, place)
    if isinstance(place, str):
        return client.offsets(dict.fromkeys(partitions, _NAMED[place]), isolation)
    if isinstance(place, datetime):
        time_ms = int(place.timestamp() * 1000)
        found = client.offsets_for_times(dict.fromkeys(partitions, time_ms), isolation)
        ends = client.offsets(
            {each: OffsetSpec.LATEST for each, offset in found.items() if offset is None}, isolation
        )
        return {each: ends[each] if offset is None else offset for each, offset in found.items()}
    return _resolve_entries(client, partitions, place, isolation, default)


def _resolve_entries(
    client: BlockingClient,
    partitions: Sequence[TopicPartition],
    place: Mapping[int, int],
    isolation: Isolation,
    default: OffsetSpec,
) -> dict[TopicPartition, int]:
    numbers = {each.partition for each in partitions}
    for number in place:
        if number not in numbers:
            raise ValueError(f"there is no partition {number}: there are {sorted(numbers)}")
    unnamed = {each: default for each in partitions if each.partition not in place}
    found = client.offsets(unnamed, isolation)
    return {each: found[each] if each in unnamed else place[each.partition] for each in partitions}
