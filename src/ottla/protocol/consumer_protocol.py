"""Kafka's ConsumerProtocol: subscriptions and assignments of consumers of the classic protocol.

They are the bytes inside JoinGroup and SyncGroup: a version, then the message. What a later version
adds behind it is passed over. None is flexible.
"""

from collections.abc import Iterable, Mapping
from struct import Struct, error
from typing import Any, TypeVar

from ottla.protocol import codec
from ottla.protocol.codec import header, since, struct
from ottla.protocol.codec.decoder import ELEMENTS_UNLIMITED
from ottla.protocol.primitives import DecodeError, i32
from ottla.protocol.topic_partition import TopicPartition, by_topic

# The protocol type of a group of consumers.
PROTOCOL_TYPE = "consumer"

_VERSION = Struct(">h")
_VERSION_AND_COUNT = Struct(">hi")
_LENGTH = Struct(">h")
_VERSIONS = (0, 3)
_NEVER_FLEXIBLE = _VERSIONS[1] + 1

M = TypeVar("M")


@struct
class TopicPartitions:
    topic: str
    partitions: tuple[i32, ...]


@header(versions=_VERSIONS, flexible=_NEVER_FLEXIBLE)
class Subscription:
    """What a member says when it joins: what it wants, and what it owns."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartitions, ...] = since(1, default=(), ignorable=True)
    generation_id: i32 = since(2, default=-1, ignorable=True)
    rack_id: str | None = since(3, default=None, ignorable=True)


@header(versions=_VERSIONS, flexible=_NEVER_FLEXIBLE)
class Assignment:
    """What a member is given when it syncs."""

    assigned_partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None = None


def decode_subscription(raw: bytes, *, elements_max: int = ELEMENTS_UNLIMITED) -> Subscription:
    """DecodeError if these bytes are no subscription."""
    return _decode(Subscription, raw, elements_max)


def decode_assignment(raw: bytes, *, elements_max: int = ELEMENTS_UNLIMITED) -> Assignment:
    """DecodeError if these bytes are no assignment. A member without one has no bytes."""
    return _decode(Assignment, raw, elements_max) if raw else Assignment(assigned_partitions=())


def decode_partitions(raw: bytes) -> list[TopicPartition]:
    """The partitions in an assignment. DecodeError."""
    return [
        TopicPartition(topic.topic, partition)
        for topic in decode_assignment(raw).assigned_partitions
        for partition in topic.partitions
    ]


def encode_subscription(topics: Iterable[str]) -> bytes:
    """In the first version, which every consumer reads."""
    return _encode(Subscription(topics=tuple(topics)), _VERSIONS[0])


def encode_assignment(
    partitions: Mapping[str, Iterable[int]], *, version: int = _VERSIONS[0]
) -> bytes:
    """Partitions by topic; in the first version, which every consumer reads, unless told."""
    assigned = tuple(
        TopicPartitions(topic=topic, partitions=tuple(indexes))
        for topic, indexes in partitions.items()
    )
    return _encode(Assignment(assigned_partitions=assigned), version)


def encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    """An assignment of these partitions."""
    return encode_assignment(
        {topic: [each.partition for each in group] for topic, group in by_topic(partitions).items()}
    )


def subscribed_topics(raw: bytes) -> frozenset[str] | None:
    """The topics of a subscription, None if these bytes are something else.

    Looks at nothing behind the topics: they stand in the same place in all versions, and a broker
    that only has to know them refuses nothing else that a client says.
    """
    topics = []
    try:
        _, count = _VERSION_AND_COUNT.unpack_from(raw)
        position = _VERSION_AND_COUNT.size
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(raw, position)
            start = position + _LENGTH.size
            position = start + length
            if length < 0 or position > len(raw):
                return None
            topics.append(raw[start:position].decode())
    except (error, UnicodeDecodeError):
        return None
    return frozenset(topics)


def version_of(raw: bytes) -> int:
    """The version to read bytes in: of a later one than is known, the last. DecodeError."""
    if len(raw) < _VERSION.size:
        raise DecodeError("ConsumerProtocol", "version", 0, f"{len(raw)} bytes have no version")
    version: int = _VERSION.unpack_from(raw)[0]
    if version < _VERSIONS[0]:
        raise DecodeError("ConsumerProtocol", "version", 0, f"there is no version {version}")
    return min(version, _VERSIONS[1])


def _decode(message: type[M], raw: bytes, elements_max: int) -> M:
    declared: Any = message
    found: M = codec.decode(
        declared, version_of(raw), raw, _VERSION.size, elements_max=elements_max
    )[0]
    return found


def _encode(message: object, version: int) -> bytes:
    return _VERSION.pack(version) + codec.encode_bytes(message, version)
