"""The settings in force of a topic or group: its overrides on top of its broker's settings."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from ottla.settings.broker import BrokerSettings, Synonym
from ottla.settings.setting import ConfigSource, Setting, stored_values

T = TypeVar("T")


class ResourceConfigs:
    """Read by definition: the overrides of the resource, else the broker's settings.

    Overrides were validated when they were set. Names that only a later version knows are skipped.
    """

    __slots__ = ("_broker", "_overrides")

    # The settings of the resource, and the source that DescribeConfigs names for its overrides.
    table: ClassVar[Mapping[str, Setting[Any]]]
    source: ClassVar[ConfigSource]

    def __init__(self, overrides: Mapping[str, str], broker: BrokerSettings) -> None:
        self._broker = broker
        self._overrides = stored_values(overrides, self.table)

    def __getitem__(self, setting: Setting[T]) -> T:
        if setting.name in self._overrides:
            value: T = self._overrides[setting.name]
            return value
        return self._broker[setting]

    @property
    def broker(self) -> BrokerSettings:
        """The broker's settings, in force where there is no override."""
        return self._broker

    def overrides(self, setting: Setting[Any]) -> bool:
        """Whether the resource overrides this setting."""
        return setting.name in self._overrides

    def source_of(self, setting: Setting[Any]) -> ConfigSource:
        """The source of the value in force."""
        if setting.name in self._overrides:
            return self.source
        return self._broker.source_of(setting)

    def synonyms_of(self, setting: Setting[Any]) -> tuple[Synonym, ...]:
        """All values given for this setting, the one in force first."""
        brokers = self._broker.synonyms_of(setting)
        if setting.name not in self._overrides:
            return brokers
        text = setting.text(self._overrides[setting.name])
        return (Synonym(setting.name, text, self.source), *brokers)
