"""The settings in force: dynamic configs of the image on top of the broker's start settings."""

from collections.abc import Iterable

from ottla.metadata.image import Image
from ottla.metadata.values import ResourceKind
from ottla.settings.broker import BrokerSettings
from ottla.settings.group import GroupConfigs
from ottla.settings.topic import TopicConfigs
from ottla.settings.validation import validate_topic_config

# The resource name for the cluster-wide defaults of all brokers.
ALL_BROKERS = ""


def topic_configs(image: Image, topic: str, settings: BrokerSettings) -> TopicConfigs:
    """The settings of a topic; `settings` are those of the broker."""
    return TopicConfigs(image.configs(ResourceKind.TOPIC, topic), settings)


def group_configs(image: Image, group: str, settings: BrokerSettings) -> GroupConfigs:
    """The settings of a group; `settings` are those of its coordinator."""
    return GroupConfigs(image.configs(ResourceKind.GROUP, group), settings)


def broker_settings(image: Image, broker_id: int, settings: BrokerSettings) -> BrokerSettings:
    """The settings of a broker; `settings` are those that it started with."""
    own = image.configs(ResourceKind.BROKER, str(broker_id))
    shared = image.configs(ResourceKind.BROKER, ALL_BROKERS)
    if not own and not shared:
        return settings
    return settings.with_dynamic(broker=own, cluster=shared)


def validated_topic_configs(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """A topic's configs in stored form, sorted by name.

    PeerError INVALID_CONFIG for the first unknown name or invalid value. Of two values for one name
    the later counts.
    """
    validated = {name: validate_topic_config(name, value) for name, value in configs}
    return dict(sorted(validated.items()))
