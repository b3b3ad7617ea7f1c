"""Topics that the broker makes for itself, when they are first needed."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.metadata.controller import topic_changes
from ottla.metadata.controller.pending_topics import Draft
from ottla.metadata.controller.topic_changes import CreatedTopic, NewTopic
from ottla.metadata.records import Config, Record
from ottla.metadata.values import BrokerState, ResourceKind
from ottla.protocol.primitives import Uuid
from ottla.settings.broker import BrokerSettings


class InternalTopic(NamedTuple):
    """A topic of the broker's own. Its settings need not be among those that clients may choose."""

    name: str
    partitions: int
    # As many as there are brokers, where there are fewer.
    replication_factor_max: int
    configs: Mapping[str, str]


def create_internal_topic(
    draft: Draft, wish: InternalTopic, settings: BrokerSettings, topic_id: Uuid, start: int
) -> tuple[list[Record], CreatedTopic]:
    """A decision for `Publisher.commit`. PeerError if the topic exists, or cannot be made."""
    up = sum(1 for broker in draft.image.brokers.values() if broker.state is BrokerState.UP)
    plain = NewTopic(
        name=wish.name,
        partitions=wish.partitions,
        replication_factor=max(1, min(wish.replication_factor_max, up)),
    )
    records, created = topic_changes.create_topic(draft, plain, settings, topic_id, start)
    records += [
        Config(ResourceKind.TOPIC, wish.name, key, value)
        for key, value in sorted(wish.configs.items())
    ]
    return records, created
