"""What consumers of the classic protocol say to each other through their group: opaque to brokers.

A version, then the message; what a later version adds behind it is passed over.
"""

import struct
from typing import Any, TypeVar

from ottla.protocol import codec
from ottla.protocol.codec import header, since
from ottla.protocol.primitives import DecodeError, i32
from ottla.protocol.topic_partition import TopicPartition, by_topic

M = TypeVar("M")

PROTOCOL_TYPE = "consumer"
_VERSION = struct.Struct(">h")
# Kafka's last versions. None is flexible: 4 would be the first that could be.
_LAST_VERSION = 3
_NEVER_FLEXIBLE = _LAST_VERSION + 1


@codec.struct
class TopicPartitions:
    topic: str
    partitions: tuple[i32, ...]


@header(versions=(0, _LAST_VERSION), flexible=_NEVER_FLEXIBLE)
class Subscription:
    """What a member wants, sent when it joins."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartitions, ...] = since(1, default=(), ignorable=True)
    generation_id: i32 = since(2, default=-1, ignorable=True)
    rack_id: str | None = since(3, default=None, ignorable=True)


@header(versions=(0, _LAST_VERSION), flexible=_NEVER_FLEXIBLE)
class Assignment:
    """What a member gets, sent by the leader of its group."""

    assigned_partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None = None


def encode_assignment(partitions: list[TopicPartition]) -> bytes:
    """In the first version, which every consumer reads."""
    topics = tuple(
        TopicPartitions(topic=topic, partitions=tuple(each.partition for each in own))
        for topic, own in by_topic(partitions).items()
    )
    return _VERSION.pack(0) + codec.encode_bytes(Assignment(assigned_partitions=topics), 0)


def decode_assignment(raw: bytes) -> list[TopicPartition]:
    """The partitions of a member. DecodeError if the bytes are no assignment."""
    if not raw:
        return []
    return [
        TopicPartition(topic.topic, partition)
        for topic in _decode(Assignment, raw).assigned_partitions
        for partition in topic.partitions
    ]


def encode_subscription(topics: list[str]) -> bytes:
    subscription = Subscription(topics=tuple(topics))
    return _VERSION.pack(0) + codec.encode_bytes(subscription, 0)


def decode_subscription(raw: bytes) -> list[str]:
    """The topics that a member wants. DecodeError if the bytes are no subscription."""
    return list(_decode(Subscription, raw).topics)


def _decode(message: type[M], raw: bytes) -> M:
    if len(raw) < _VERSION.size:
        raise DecodeError(message.__name__, "version", 0, "the bytes end here")
    version: int = _VERSION.unpack_from(raw)[0]
    if version < 0:
        raise DecodeError(message.__name__, "version", 0, f"{version}, which is none")
    found: tuple[Any, int] = codec.decode(message, min(version, _LAST_VERSION), raw, _VERSION.size)
    return found[0]  # type: ignore[no-any-return]
