"""The consumer embedded protocol: subscriptions and assignments of classic consumers.

A classic group does not interpret these bytes. A group that migrates between the protocols has to
read the subscriptions and owned partitions of its classic members, and to write their assignments.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ottla.coordinators.group.consumer.topics import Topics
from ottla.coordinators.group.records import Partitions
from ottla.errors import OttlaError
from ottla.protocol import consumer_protocol
from ottla.protocol.consumer_protocol import Assignment, Subscription, TopicPartitions
from ottla.protocol.primitives import DecodeError, Uuid

# The most topics and partitions that a member may name.
EMBEDDED_ELEMENTS_MAX = 100_000

T = TypeVar("T")


class MalformedProtocol(OttlaError):
    """Bytes that are not a consumer's subscription or assignment."""


def read_subscription(raw: bytes) -> Subscription:
    """MalformedProtocol if the bytes are not a subscription."""
    decode = consumer_protocol.decode_subscription
    return _embedded(decode, raw, elements_max=EMBEDDED_ELEMENTS_MAX)


def read_assignment(raw: bytes) -> Assignment:
    """MalformedProtocol if the bytes are not an assignment. Empty bytes are an empty one."""
    decode = consumer_protocol.decode_assignment
    return _embedded(decode, raw, elements_max=EMBEDDED_ELEMENTS_MAX)


def write_assignment(partitions: Partitions, topics: Topics, subscription: bytes) -> bytes:
    """Encoded in the version of the member's subscription. Deleted topics are left out."""
    named = {topics.name(topic_id): indexes for topic_id, indexes in partitions.items()}
    return consumer_protocol.encode_assignment(
        {name: indexes for name, indexes in named.items() if name is not None},
        version=_embedded(consumer_protocol.version_of, subscription),
    )


def by_topic_id(named: tuple[TopicPartitions, ...], topics: Topics) -> Partitions:
    """The same partitions by topic id; topics that do not exist are left out."""
    found: dict[Uuid, set[int]] = {}
    for each in named:
        shape = topics.shape(each.topic)
        if shape is not None:
            found.setdefault(shape.topic_id, set()).update(each.partitions)
    return _sorted(found)


def _sorted(found: Mapping[Uuid, set[int]]) -> Partitions:
    return {topic_id: tuple(sorted(indexes)) for topic_id, indexes in found.items() if indexes}


def _embedded(read: Callable[..., T], raw: bytes, **limits: Any) -> T:
    try:
        return read(raw, **limits)
    except DecodeError as error:
        raise MalformedProtocol(str(error)) from None
