"""Offsets in the JSON notation of Spark's Kafka connector, in options and in checkpoints.

`{"orders": {"0": 23, "1": -2}}` gives an offset per partition. In options, -2 is a partition's
beginning and -1 its end; a checkpoint has neither. Any other notation is refused with an example.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ottla.errors import OttlaError
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.primitives import OFFSET_MAX
from ottla.protocol.topic_partition import TopicPartition, by_topic

Offsets = dict[TopicPartition, int]
# The offset of a source as Spark keeps it in a checkpoint.
JsonOffsets = dict[str, dict[str, int]]

PARTITION_MAX = 2**31 - 1

OFFSETS_EXAMPLE = '{"orders": {"0": 23, "1": -2}}'
TIMES_EXAMPLE = '{"orders": {"0": 1767225600000}}'
ASSIGN_EXAMPLE = '{"orders": [0, 1]}'


class BadOffsets(OttlaError, ValueError):
    """Invalid offsets in an option or a checkpoint. The message shows the correct notation."""


class Edge(StrEnum):
    """The beginning or the end of every partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset or an `OffsetSpec` per partition."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """Each partition's first record at or after one time."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """Each partition's first record at or after its own time."""

    timestamps_ms: Mapping[TopicPartition, int]


# A starting or ending option, before its offsets are queried from the brokers.
OffsetRangeLimit = Edge | AtOffsets | AtTime | AtTimes


def parse_range_limit(text: str) -> Edge | AtOffsets:
    """Parses `earliest`, `latest`, or an offset per partition. BadOffsets."""
    word = text.strip().lower()
    if word in (Edge.EARLIEST, Edge.LATEST):
        return Edge(word)
    return AtOffsets(_by_partition(text, OFFSETS_EXAMPLE, _offset_or_edge))


def parse_times(text: str) -> AtTimes:
    """Parses a time in ms per partition. BadOffsets."""
    return AtTimes(_by_partition(text, TIMES_EXAMPLE, _whole))


def parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    """Parses partitions of topics, sorted and without duplicates. BadOffsets."""
    found = set()
    for topic, numbers in _object(text, ASSIGN_EXAMPLE).items():
        if not isinstance(numbers, list):
            raise _bad(f"partitions of {topic} are not a list", ASSIGN_EXAMPLE)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int):
                raise _bad(f"{number!r} is not a partition of {topic}", ASSIGN_EXAMPLE)
            found.add(TopicPartition(topic, _partition(topic, str(number), ASSIGN_EXAMPLE)))
    if not found:
        raise _bad("no partition is named", ASSIGN_EXAMPLE)
    return tuple(sorted(found))


def to_json_offsets(offsets: Mapping[TopicPartition, int]) -> JsonOffsets:
    """Offsets in Spark's notation. Equal offsets give equal text."""
    return {
        topic: {str(each.partition): offsets[each] for each in own}
        for topic, own in by_topic(sorted(offsets)).items()
    }


def from_json_offsets(form: object) -> Offsets:
    """Offsets written by `to_json_offsets` or by Spark's Kafka connector. BadOffsets."""
    try:
        return _read(form, OFFSETS_EXAMPLE, _whole)
    except BadOffsets as error:
        raise BadOffsets(
            f"the checkpoint belongs to another source: {error}. "
            "Give the query a checkpointLocation of its own"
        ) from None


def _by_partition(text: str, example: str, value_of: Callable[[object], int | None]) -> Offsets:
    return _read(_object(text, example), example, value_of)


def _object(text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(f"it is not JSON ({error})", example) from None
    if not isinstance(found, dict):
        raise _bad("it is not a JSON object", example)
    return found


def _read(form: object, example: str, value_of: Callable[[object], int | None]) -> Offsets:
    if not isinstance(form, dict):
        raise _bad("it is not a JSON object", example)
    offsets: Offsets = {}
    for topic, own in form.items():
        if not isinstance(own, dict):
            raise _bad(f"{topic} has no object of partitions", example)
        for number, written in own.items():
            partition = TopicPartition(topic, _partition(topic, number, example))
            value = value_of(written)
            if value is None:
                raise _bad(f"{partition} has {written!r}", example)
            offsets[partition] = value
    return dict(sorted(offsets.items()))


def _partition(topic: str, text: str, example: str) -> int:
    # Only one notation per number: "07" and "7" would be two keys for one partition.
    if text.isascii() and text.isdigit() and str(int(text)) == text and int(text) <= PARTITION_MAX:
        return int(text)
    raise _bad(f"{text!r} is not a partition of {topic}", example)


def _whole(written: object) -> int | None:
    if isinstance(written, bool) or not isinstance(written, int):
        return None
    return written if 0 <= written <= OFFSET_MAX else None


def _offset_or_edge(written: object) -> int | None:
    if written in (OffsetSpec.EARLIEST, OffsetSpec.LATEST) and isinstance(written, int):
        return written
    return _whole(written)


def _bad(what: str, example: str) -> BadOffsets:
    return BadOffsets(f"{what}; the notation is {example}")
