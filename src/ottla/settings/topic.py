"""A topic's settings in force: its overrides and its broker's settings."""

from ottla.settings.resource_configs import ResourceConfigs
from ottla.settings.setting import ConfigSource
from ottla.settings.table import TOPIC_SETTINGS


class TopicConfigs(ResourceConfigs):
    """A topic's settings, read by definition; the broker's where the topic sets none."""

    __slots__ = ()
    table = TOPIC_SETTINGS
    source = ConfigSource.DYNAMIC_TOPIC
