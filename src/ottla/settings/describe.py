"""Settings as DescribeConfigs returns them: value, source, synonyms, type and documentation."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ottla.settings.broker import BrokerSettings, Synonym
from ottla.settings.group import GroupConfigs
from ottla.settings.kinds import ConfigType
from ottla.settings.resource_configs import ResourceConfigs
from ottla.settings.setting import ConfigSource, Setting, stored_values
from ottla.settings.table import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from ottla.settings.topic import TopicConfigs

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRow:
    """One setting of a topic, group or broker."""

    name: str
    # None if it is not set, or secret.
    value: str | None
    is_read_only: bool
    source: ConfigSource
    is_sensitive: bool
    # The one in force first.
    synonyms: tuple[Synonym, ...]
    config_type: ConfigType
    documentation: str

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


def describe_topic(
    configs: TopicConfigs, names: Collection[str] | None = None
) -> tuple[ConfigRow, ...]:
    """A topic's settings in order of name: all, or those among `names`."""
    return _rows(TOPIC_SETTINGS, configs, names)


def describe_group(
    configs: GroupConfigs, names: Collection[str] | None = None
) -> tuple[ConfigRow, ...]:
    """A group's settings in order of name: all, or those among `names`."""
    return _rows(GROUP_SETTINGS, configs, names)


def describe_broker(
    settings: BrokerSettings, names: Collection[str] | None = None
) -> tuple[ConfigRow, ...]:
    """A broker's settings in order of name: all, or those among `names`."""
    return _rows(BROKER_SETTINGS, settings, names)


def describe_cluster(
    changes: Mapping[str, str], names: Collection[str] | None = None
) -> tuple[ConfigRow, ...]:
    """The cluster-wide dynamic settings only, as Kafka returns for the broker with no name."""
    values = stored_values(changes, BROKER_SETTINGS)
    source = ConfigSource.DYNAMIC_DEFAULT_BROKER
    return tuple(
        _row(setting, values[name], source, (Synonym(name, setting.text(values[name]), source),))
        for name, setting in BROKER_SETTINGS.items()
        if name in values and (names is None or name in names)
    )


def _rows(
    table: Mapping[str, Setting[Any]],
    values: BrokerSettings | ResourceConfigs,
    names: Collection[str] | None,
) -> tuple[ConfigRow, ...]:
    return tuple(
        _row_of(setting, values)
        for name, setting in table.items()
        if names is None or name in names
    )


def _row_of(setting: Setting[Any], values: BrokerSettings | ResourceConfigs) -> ConfigRow:
    """Most topics override few settings: the rows of the others are built once per broker."""
    if isinstance(values, ResourceConfigs):
        if values.overrides(setting):
            return _row_in_force(setting, values)
        values = values.broker
    row: ConfigRow | None = values.described_rows.get(setting)
    if row is None:
        row = values.described_rows[setting] = _row_in_force(setting, values)
    return row


def _row_in_force(setting: Setting[Any], values: BrokerSettings | ResourceConfigs) -> ConfigRow:
    shown = setting
    if setting.described_by is not None and values[setting] is None:
        shown = setting.described_by
    return _row(setting, values[shown], values.source_of(shown), values.synonyms_of(shown))


def _row(
    setting: Setting[T], value: T, source: ConfigSource, synonyms: tuple[Synonym, ...]
) -> ConfigRow:
    return ConfigRow(
        name=setting.name,
        value=setting.text(value),
        is_read_only=not setting.is_dynamic,
        source=source,
        is_sensitive=setting.kind.is_secret,
        synonyms=synonyms,
        config_type=setting.kind.config_type,
        documentation=setting.purpose,
    )
