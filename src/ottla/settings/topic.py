"""A topic's settings in force: its own, on top of its broker's."""

from ottla.settings.resource_configs import OwnConfigs
from ottla.settings.setting import ConfigSource
from ottla.settings.table import TOPIC_SETTINGS


class TopicConfigs(OwnConfigs):
    """A topic's settings, read by definition: its own, and the broker's for what it does not set.

    The overrides were checked when they were made; a name that only a later version knows is
    skipped.
    """

    __slots__ = ()
    table = TOPIC_SETTINGS
    source = ConfigSource.DYNAMIC_TOPIC
