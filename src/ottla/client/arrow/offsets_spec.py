"""The start and the end of a read, as users specify them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from ottla.client.blocking.client import BlockingClient
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.topic_partition import TopicPartition

# "earliest", "latest", an offset for every partition, a time, or offsets by partition.
OffsetsSpec = str | int | datetime | Mapping[int, int]

_NAMED = {"earliest": OffsetSpec.EARLIEST, "latest": OffsetSpec.LATEST}


def check_offsets_spec(spec: OffsetsSpec) -> None:
    """TypeError or ValueError for an invalid value."""
    match spec:
        case bool():
            raise TypeError(f"{spec} is no place in a topic")
        case str() if spec not in _NAMED:
            raise ValueError(f"{spec!r} is no place in a topic: there are earliest and latest")
        case int() if spec < 0:
            raise ValueError(f"{spec} is no offset")
        case datetime() if spec.tzinfo is None:
            raise ValueError(f"{spec} has no time zone: use datetime(..., tzinfo=timezone.utc)")
        case str() | int() | datetime():
            return
        case Mapping():
            for partition, offset in spec.items():
                _check_entry(partition, offset)
        case _:
            raise TypeError(f"{spec!r} is no place in a topic")


def _check_entry(partition: object, offset: object) -> None:
    for number in (partition, offset):
        if not isinstance(number, int) or isinstance(number, bool) or number < 0:
            raise ValueError(f"{{{partition!r}: {offset!r}}} is no offset of a partition")


def resolve(
    client: BlockingClient,
    partitions: Sequence[TopicPartition],
    spec: OffsetsSpec,
    isolation: Isolation,
    default: OffsetSpec,
) -> dict[TopicPartition, int]:
    """The offset of each partition; `default` is for partitions that a mapping does not name.

    A time means the first record with this timestamp or a later one, or the end without one.
    """
    if isinstance(spec, int):
        return dict.fromkeys(partitions, spec)
    if isinstance(spec, str):
        return client.offsets(dict.fromkeys(partitions, _NAMED[spec]), isolation)
    if isinstance(spec, datetime):
        time_ms = int(spec.timestamp() * 1000)
        found = client.offsets_for_times(dict.fromkeys(partitions, time_ms), isolation)
        ends = client.offsets(
            {each: OffsetSpec.LATEST for each, offset in found.items() if offset is None}, isolation
        )
        return {each: ends[each] if offset is None else offset for each, offset in found.items()}
    return _resolve_entries(client, partitions, spec, isolation, default)


def _resolve_entries(
    client: BlockingClient,
    partitions: Sequence[TopicPartition],
    spec: Mapping[int, int],
    isolation: Isolation,
    default: OffsetSpec,
) -> dict[TopicPartition, int]:
    numbers = {each.partition for each in partitions}
    for number in spec:
        if number not in numbers:
            raise ValueError(f"there is no partition {number}: there are {sorted(numbers)}")
    unnamed = {each: default for each in partitions if each.partition not in spec}
    found = client.offsets(unnamed, isolation)
    return {each: found[each] if each in unnamed else spec[each.partition] for each in partitions}
