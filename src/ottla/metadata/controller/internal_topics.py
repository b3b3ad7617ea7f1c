"""Creates internal topics when they are first needed."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.metadata.controller import topic_changes
from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.controller.topic_changes import CreatedTopic, NewTopic
from ottla.metadata.image import Image
from ottla.metadata.records import Config, Record
from ottla.metadata.values import BrokerState, ResourceKind
from ottla.protocol.primitives import Uuid
from ottla.settings.broker import BrokerSettings


class InternalTopic(NamedTuple):
    """An internal topic. It may have configs that clients may not set."""

    name: str
    partitions: int
    # Reduced to the number of brokers if there are fewer.
    replication_factor_max: int
    configs: Mapping[str, str]


def replication_factor(image: Image, topic: InternalTopic) -> int:
    """As many replicas as there are brokers, up to the topic's number."""
    up = sum(1 for broker in image.brokers.values() if broker.state is BrokerState.UP)
    return max(1, min(topic.replication_factor_max, up))


def create_internal_topic(
    pending: PendingTopics,
    topic: InternalTopic,
    settings: BrokerSettings,
    topic_id: Uuid,
    start: int,
) -> tuple[list[Record], CreatedTopic]:
    """A decision for `Controller.commit`. PeerError if the topic exists or cannot be created."""
    plain = NewTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=replication_factor(pending.image, topic),
    )
    records, created = topic_changes.create_topic(pending, plain, settings, topic_id, start)
    records += [
        Config(ResourceKind.TOPIC, topic.name, key, value)
        for key, value in sorted(topic.configs.items())
    ]
    return records, created
