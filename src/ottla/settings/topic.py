"""A topic's settings in force: its own, on top of its broker's."""

from collections.abc import Mapping
from typing import Any, TypeVar

from ottla.settings.broker import BrokerSettings, Synonym
from ottla.settings.setting import ConfigSource, Setting, stored_values
from ottla.settings.table import TOPIC_SETTINGS

T = TypeVar("T")


class TopicConfigs:
    """A topic's settings, read by definition: its own, and the broker's for what it does not set.

    The overrides were checked when they were made; a name that only a later version knows is
    skipped.
    """

    __slots__ = ("_broker", "_own")

    def __init__(self, overrides: Mapping[str, str], broker: BrokerSettings) -> None:
        self._broker = broker
        self._own = stored_values(overrides, TOPIC_SETTINGS)

    def __getitem__(self, setting: Setting[T]) -> T:
        if setting.name in self._own:
            value: T = self._own[setting.name]
            return value
        return self._broker[setting]

    def source_of(self, setting: Setting[Any]) -> ConfigSource:
        """Where the value in force comes from."""
        if setting.name in self._own:
            return ConfigSource.DYNAMIC_TOPIC
        return self._broker.source_of(setting)

    def synonyms_of(self, setting: Setting[Any]) -> tuple[Synonym, ...]:
        """Every place that has a value for this setting, the one in force first."""
        behind = self._broker.synonyms_of(setting)
        if setting.name not in self._own:
            return behind
        text = setting.text(self._own[setting.name])
        return (Synonym(setting.name, text, ConfigSource.DYNAMIC_TOPIC), *behind)
