"""What classic consumers tell each other inside JoinGroup and SyncGroup: the embedded protocol.

In a classic group these bytes are the clients' affair. A group that moves between the protocols has
to read what its classic members subscribe to and own, and to write what they are assigned. All
versions begin with their number, and none is flexible.
"""

import struct as packing
from collections.abc import Mapping
from typing import Any, TypeVar

from ottla.coordinators.group.consumer.topics import Topics
from ottla.coordinators.group.records import Partitions
from ottla.errors import OttlaError
from ottla.protocol import codec
from ottla.protocol.codec import header, since, struct
from ottla.protocol.primitives import DecodeError, Uuid, i32

# How many topics and partitions a member may name.
EMBEDDED_ELEMENTS_MAX = 100_000

_VERSION = packing.Struct(">h")
_VERSIONS = (0, 3)
_NEVER = _VERSIONS[1] + 1

M = TypeVar("M")


class NotEmbedded(OttlaError):
    """Bytes that are no subscription or assignment of a consumer."""


@struct
class TopicPartitions:
    topic: str
    partitions: tuple[i32, ...]


@header(versions=_VERSIONS, flexible=_NEVER)
class Subscription:
    """What a member says when it joins: what it wants, and what it owns."""

    topics: tuple[str, ...]
    user_data: bytes | None
    owned_partitions: tuple[TopicPartitions, ...] = since(1, default=(), ignorable=True)
    generation_id: i32 = since(2, default=-1, ignorable=True)
    rack_id: str | None = since(3, default=None, ignorable=True)


@header(versions=_VERSIONS, flexible=_NEVER)
class Assignment:
    """What a member is given when it syncs."""

    assigned_partitions: tuple[TopicPartitions, ...]
    user_data: bytes | None


def read_subscription(raw: bytes) -> Subscription:
    """NotEmbedded if these bytes are something else."""
    return _read(Subscription, raw)


def read_assignment(raw: bytes) -> Assignment:
    """NotEmbedded if these bytes are something else. Who has none yet has no bytes."""
    return _read(Assignment, raw) if raw else Assignment(assigned_partitions=(), user_data=None)


def write_assignment(partitions: Partitions, topics: Topics, subscription: bytes) -> bytes:
    """In the version in which the member subscribed. Topics that are gone are left out."""
    version = _version(subscription)
    named = {topics.name(topic_id): indexes for topic_id, indexes in partitions.items()}
    assignment = Assignment(
        assigned_partitions=tuple(
            TopicPartitions(topic=name, partitions=indexes)
            for name, indexes in named.items()
            if name is not None
        ),
        user_data=None,
    )
    return _VERSION.pack(version) + codec.encode_bytes(assignment, version)


def by_topic_id(named: tuple[TopicPartitions, ...], topics: Topics) -> Partitions:
    """The same by the topics' ids, as far as they exist."""
    found: dict[Uuid, set[int]] = {}
    for each in named:
        shape = topics.shape(each.topic)
        if shape is not None:
            found.setdefault(shape.topic_id, set()).update(each.partitions)
    return _sorted(found)


def _sorted(found: Mapping[Uuid, set[int]]) -> Partitions:
    return {topic_id: tuple(sorted(indexes)) for topic_id, indexes in found.items() if indexes}


def _read(message: type[M], raw: bytes) -> M:
    version = _version(raw)
    declared: Any = message
    try:
        found: M = codec.decode(
            declared, version, raw, _VERSION.size, elements_max=EMBEDDED_ELEMENTS_MAX
        )[0]
    except DecodeError as error:
        raise NotEmbedded(str(error)) from None
    return found


def _version(raw: bytes) -> int:
    """Which version to read or to write: a later one than is known begins as the last one does."""
    if len(raw) < _VERSION.size:
        raise NotEmbedded(f"{len(raw)} bytes have no version")
    version: int = _VERSION.unpack_from(raw)[0]
    if version < _VERSIONS[0]:
        raise NotEmbedded(f"there is no version {version}")
    return min(version, _VERSIONS[1])
