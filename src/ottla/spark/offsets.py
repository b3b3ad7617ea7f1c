"""Offsets as text: the JSON of Spark's Kafka connector, in options and in checkpoints.

`{"orders": {"0": 23, "1": -2}}` is an offset for each partition. In options -2 is where a partition
begins and -1 where it ends; a checkpoint has neither. What is written in another way is refused,
with an example of what is meant.
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
# What Spark takes for an offset and keeps in a checkpoint.
OffsetsForm = dict[str, dict[str, int]]

PARTITION_MAX = 2**31 - 1

OFFSETS_EXAMPLE = '{"orders": {"0": 23, "1": -2}}'
TIMES_EXAMPLE = '{"orders": {"0": 1767225600000}}'
ASSIGN_EXAMPLE = '{"orders": [0, 1]}'


class BadOffsets(OttlaError, ValueError):
    """Text or a checkpoint that names no offsets; the message says where and how it is written."""


class Edge(StrEnum):
    """An end of every partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition, or an `OffsetSpec`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record of every partition that is not before this."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record not before a time, for each partition its own."""

    timestamps_ms: Mapping[TopicPartition, int]


# Where reading begins or ends, before any broker was asked.
Place = Edge | AtOffsets | AtTime | AtTimes


def parse_place(text: str) -> Edge | AtOffsets:
    """`earliest`, `latest`, or an offset for each partition. BadOffsets."""
    word = text.strip().lower()
    if word in (Edge.EARLIEST, Edge.LATEST):
        return Edge(word)
    return AtOffsets(_by_partition(text, OFFSETS_EXAMPLE, _offset_or_edge))


def parse_times(text: str) -> AtTimes:
    """A time in ms for each partition. BadOffsets."""
    return AtTimes(_by_partition(text, TIMES_EXAMPLE, _whole))


def parse_assignment(text: str) -> tuple[TopicPartition, ...]:
    """Partitions of topics, in order and each once. BadOffsets."""
    found = set()
    for topic, numbers in _object(text, ASSIGN_EXAMPLE).items():
        if not isinstance(numbers, list):
            raise _bad(f"partitions of {topic} are not a list", ASSIGN_EXAMPLE)
        for number in numbers:
            if isinstance(number, bool) or not isinstance(number, int):
                raise _bad(f"{number!r} is no partition of {topic}", ASSIGN_EXAMPLE)
            found.add(TopicPartition(topic, _partition(topic, str(number), ASSIGN_EXAMPLE)))
    if not found:
        raise _bad("no partition is named", ASSIGN_EXAMPLE)
    return tuple(sorted(found))


def to_form(offsets: Mapping[TopicPartition, int]) -> OffsetsForm:
    """As Spark keeps them: the same offsets always give the same text."""
    return {
        topic: {str(each.partition): offsets[each] for each in own}
        for topic, own in by_topic(sorted(offsets)).items()
    }


def from_form(form: object) -> Offsets:
    """What `to_form`, or Spark's Kafka connector, has made. BadOffsets."""
    try:
        return _read(form, OFFSETS_EXAMPLE, _whole)
    except BadOffsets as error:
        raise BadOffsets(
            f"the checkpoint is not of this source: {error}. "
            "Give the query a checkpointLocation of its own"
        ) from None


def _by_partition(text: str, example: str, value_of: Callable[[object], int | None]) -> Offsets:
    return _read(_object(text, example), example, value_of)


def _object(text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _bad(f"it is no JSON ({error})", example) from None
    if not isinstance(found, dict):
        raise _bad("it is no JSON object", example)
    return found


def _read(form: object, example: str, value_of: Callable[[object], int | None]) -> Offsets:
    if not isinstance(form, dict):
        raise _bad("it is no JSON object", example)
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
    # One way to write a number: "07" and "7" would be two keys for one partition.
    if text.isascii() and text.isdigit() and str(int(text)) == text and int(text) <= PARTITION_MAX:
        return int(text)
    raise _bad(f"{text!r} is no partition of {topic}", example)


def _whole(written: object) -> int | None:
    if isinstance(written, bool) or not isinstance(written, int):
        return None
    return written if 0 <= written <= OFFSET_MAX else None


def _offset_or_edge(written: object) -> int | None:
    if written in (OffsetSpec.EARLIEST, OffsetSpec.LATEST) and isinstance(written, int):
        return written
    return _whole(written)


def _bad(what: str, example: str) -> BadOffsets:
    return BadOffsets(f"{what}; it is written like {example}")
