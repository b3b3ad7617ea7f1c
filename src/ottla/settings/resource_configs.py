"""The settings in force of something that may have its own, on top of its broker's."""

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from ottla.settings.broker import BrokerSettings, Synonym
from ottla.settings.setting import ConfigSource, Setting, stored_values

T = TypeVar("T")


class OwnConfigs:
    """Read by definition: its own, and the broker's for what it does not set.

    The overrides were checked when they were made; a name that only a later version knows is
    skipped.
    """

    __slots__ = ("_broker", "_own")

    # What can be set for it, and how DescribeConfigs calls what is.
    table: ClassVar[Mapping[str, Setting[Any]]]
    source: ClassVar[ConfigSource]

    def __init__(self, overrides: Mapping[str, str], broker: BrokerSettings) -> None:
        self._broker = broker
        self._own = stored_values(overrides, self.table)

    def __getitem__(self, setting: Setting[T]) -> T:
        if setting.name in self._own:
            value: T = self._own[setting.name]
            return value
        return self._broker[setting]

    @property
    def broker(self) -> BrokerSettings:
        """What counts where it has no setting of its own."""
        return self._broker

    def sets(self, setting: Setting[Any]) -> bool:
        """Whether it has its own value for this."""
        return setting.name in self._own

    def source_of(self, setting: Setting[Any]) -> ConfigSource:
        """Where the value in force comes from."""
        if setting.name in self._own:
            return self.source
        return self._broker.source_of(setting)

    def synonyms_of(self, setting: Setting[Any]) -> tuple[Synonym, ...]:
        """Every place that has a value for this setting, the one in force first."""
        behind = self._broker.synonyms_of(setting)
        if setting.name not in self._own:
            return behind
        text = setting.text(self._own[setting.name])
        return (Synonym(setting.name, text, self.source), *behind)
