"""Subscriptions and assignments of classic consumers, as a group that moves has to read them.

In a classic group these bytes are the clients' affair. A group that moves between the protocols has
to read what its classic members subscribe to and own, and to write what they are assigned.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ottla.coordinators.group.consumer.topics import Topics
from ottla.coordinators.group.records import Partitions
from ottla.errors import OttlaError
from ottla.protocol import consumer_protocol
from ottla.protocol.consumer_protocol import Assignment, Subscription, TopicPartitions
from ottla.protocol.primitives import DecodeError, Uuid

# How many topics and partitions a member may name.
EMBEDDED_ELEMENTS_MAX = 100_000

T = TypeVar("T")


class NotEmbedded(OttlaError):
    """Bytes that are no subscription or assignment of a consumer."""


def read_subscription(raw: bytes) -> Subscription:
    """NotEmbedded if these bytes are something else."""
    decode = consumer_protocol.decode_subscription
    return _embedded(decode, raw, elements_max=EMBEDDED_ELEMENTS_MAX)


def read_assignment(raw: bytes) -> Assignment:
    """NotEmbedded if these bytes are something else. A member without one has no bytes."""
    decode = consumer_protocol.decode_assignment
    return _embedded(decode, raw, elements_max=EMBEDDED_ELEMENTS_MAX)


def write_assignment(partitions: Partitions, topics: Topics, subscription: bytes) -> bytes:
    """In the version in which the member subscribed. Topics that are gone are left out."""
    named = {topics.name(topic_id): indexes for topic_id, indexes in partitions.items()}
    return consumer_protocol.encode_assignment(
        {name: indexes for name, indexes in named.items() if name is not None},
        version=_embedded(consumer_protocol.version_of, subscription),
    )


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


def _embedded(read: Callable[..., T], raw: bytes, **limits: Any) -> T:
    try:
        return read(raw, **limits)
    except DecodeError as error:
        raise NotEmbedded(str(error)) from None
