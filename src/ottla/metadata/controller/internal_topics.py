"""Creates internal topics when they are first needed."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.metadata.controller import topic_changes
from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.controller.topic_changes import CreatedTopic, NewTopic
from ottla.metadata.records import Config, Record
from ottla.metadata.values import ResourceKind
from ottla.protocol.primitives import Uuid
from ottla.settings.broker import BrokerSettings


class InternalTopic(NamedTuple):
    """An internal topic. It may have configs that clients may not set."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


def create_internal_topic(
    pending: PendingTopics,
    topic: InternalTopic,
    settings: BrokerSettings,
    topic_id: Uuid,
    start: int,
) -> tuple[list[Record], CreatedTopic]:
    """A decision for `Controller.commit`. PeerError if the topic exists or cannot be created.

    It cannot while fewer brokers are up than it has replicas: with fewer replicas it would lose
    offsets and transactions with the first broker, and nobody would have been told.
    """
    plain = NewTopic(
        name=topic.name,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
    )
    records, created = topic_changes.create_topic(pending, plain, settings, topic_id, start)
    records += [
        Config(ResourceKind.TOPIC, topic.name, key, value)
        for key, value in sorted(topic.configs.items())
    ]
    return records, created
