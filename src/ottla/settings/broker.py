"""A broker's settings in force, combined from all sources."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla.settings.setting import ConfigSource, Fallback, Scope, Setting, stored_values
from ottla.settings.table import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS

T = TypeVar("T")


class Layer(NamedTuple):
    """The values of one source, by setting name."""

    source: ConfigSource
    values: Mapping[str, Any]


class Synonym(NamedTuple):
    """A name and a source that have a value for a setting, as DescribeConfigs lists them."""

    name: str
    value: str | None
    source: ConfigSource


class BrokerSettings:
    """A broker's settings, read by definition: `settings[NUM_PARTITIONS]`.

    For a topic's or group's setting this is the default for topics or groups that do not set it.
    Immutable: `with_dynamic` returns a new object for a change at run time.
    """

    __slots__ = ("_layers", "_static", "_values", "described_rows")

    def __init__(self, static: Sequence[Layer] = (), dynamic: Sequence[Layer] = ()) -> None:
        """`static` layers date from the start, `dynamic` ones from changes since. Dynamic layers
        take precedence, and earlier layers precede later ones."""
        # A cache of `describe`: the rows shared by all topics or groups that do not override them.
        self.described_rows: dict[Setting[Any], Any] = {}
        self._static = tuple(static)
        self._layers = (*dynamic, *static)
        self._values = {
            setting: self._in_force(setting)
            for table in (BROKER_SETTINGS, TOPIC_SETTINGS, GROUP_SETTINGS)
            for setting in table.values()
        }

    def __getitem__(self, setting: Setting[T]) -> T:
        value: T = self._values[setting][0]
        return value

    def source_of(self, setting: Setting[Any]) -> ConfigSource:
        """The source of the value in force."""
        return self._values[setting][1]

    def synonyms_of(self, setting: Setting[Any]) -> tuple[Synonym, ...]:
        """All values given for this setting, the one in force first."""
        found = [
            Synonym(named.name, named.text(value), source)
            for (named, _), value, source in self._given(setting)
        ]
        names = _names(setting)
        # As in Kafka: the default of a fallback is not shown.
        if names and names[0].setting.default is not None:
            named = names[0].setting
            found.append(Synonym(named.name, named.text(named.default), ConfigSource.DEFAULT))
        return tuple(found)

    def with_dynamic(
        self, *, broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> "BrokerSettings":
        """The same static settings with other dynamic ones: this broker's, then the cluster's.

        They were validated when they were changed. Names that only a later version knows are
        skipped.
        """
        return BrokerSettings(
            self._static,
            (
                Layer(ConfigSource.DYNAMIC_BROKER, stored_values(broker, BROKER_SETTINGS)),
                Layer(ConfigSource.DYNAMIC_DEFAULT_BROKER, stored_values(cluster, BROKER_SETTINGS)),
            ),
        )

    def _in_force(self, setting: Setting[Any]) -> tuple[Any, ConfigSource]:
        for name, value, source in self._given(setting):
            return name.in_unit(value), source
        return setting.default, ConfigSource.DEFAULT

    def _given(self, setting: Setting[Any]) -> Iterator[tuple[Fallback, Any, ConfigSource]]:
        """All given values in order of precedence. Sources take precedence over names: hours on
        the command line override milliseconds in a file."""
        for layer in self._layers:
            for name in _names(setting):
                if name.setting.name in layer.values:
                    yield name, layer.values[name.setting.name], layer.source


def _names(setting: Setting[Any]) -> tuple[Fallback, ...]:
    """The names under which a broker's sources can give this setting, in order of precedence."""
    own = (Fallback(setting),) if setting.scope is Scope.BROKER else ()
    return own + setting.fallbacks
