"""Settings in force: what was changed by clients, on top of what the broker started with."""

from collections.abc import Iterable

from ottla.metadata.image import Image
from ottla.metadata.values import ResourceKind
from ottla.settings.broker import BrokerSettings
from ottla.settings.group import GroupConfigs
from ottla.settings.topic import TopicConfigs
from ottla.settings.validation import validate_topic_config

# The broker of this name stands for all brokers.
ALL_BROKERS = ""


def topic_configs(image: Image, topic: str, settings: BrokerSettings) -> TopicConfigs:
    """A topic's settings, where `settings` are its broker's."""
    return TopicConfigs(image.configs(ResourceKind.TOPIC, topic), settings)


def group_configs(image: Image, group: str, settings: BrokerSettings) -> GroupConfigs:
    """A group's settings, where `settings` are its coordinator's."""
    return GroupConfigs(image.configs(ResourceKind.GROUP, group), settings)


def broker_settings(image: Image, broker_id: int, settings: BrokerSettings) -> BrokerSettings:
    """A broker's settings, where `settings` are those that it started with."""
    own = image.configs(ResourceKind.BROKER, str(broker_id))
    shared = image.configs(ResourceKind.BROKER, ALL_BROKERS)
    if not own and not shared:
        return settings
    return settings.with_dynamic(broker=own, cluster=shared)


def validated_topic_configs(configs: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """A topic's own settings as they are to be stored, in the order of their names.

    PeerError INVALID_CONFIG for the first that does not exist or has a value that is not allowed.
    Of two for one name the later counts.
    """
    validated = {name: validate_topic_config(name, value) for name, value in configs}
    return dict(sorted(validated.items()))
