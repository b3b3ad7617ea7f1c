"""A broker's settings in force, from all their sources."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from ottla.settings.setting import ConfigSource, Scope, Setting, StandIn, stored_values
from ottla.settings.table import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS

T = TypeVar("T")


class Layer(NamedTuple):
    """What one source of a broker's settings says, by name."""

    source: ConfigSource
    values: Mapping[str, Any]


class Synonym(NamedTuple):
    """One of the places that a value could come from, and what stands there."""

    name: str
    value: str | None
    source: ConfigSource


class BrokerSettings:
    """A broker's settings, read by definition: `settings[NUM_PARTITIONS]`.

    Of a topic's or a group's setting this is the value for those that do not set it. Nothing here
    changes: a change at run time is a new object, by `with_dynamic`.
    """

    __slots__ = ("_layers", "_static", "_values", "rows_told")

    def __init__(self, static: Sequence[Layer] = (), dynamic: Sequence[Layer] = ()) -> None:
        """From the layers that were there at the start and those that came since; in both, an
        earlier layer counts before a later one."""
        # The rows of `describe` that are the same for all topics or groups that do not set them.
        self.rows_told: dict[Setting[Any], Any] = {}
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
        """Where the value in force comes from."""
        return self._values[setting][1]

    def synonyms_of(self, setting: Setting[Any]) -> tuple[Synonym, ...]:
        """Every place that has a value for this setting, the one in force first."""
        found = [
            Synonym(named.name, named.text(value), source)
            for (named, _), value, source in self._given(setting)
        ]
        names = _names(setting)
        # As in Kafka: the default of a name that only stands in is not shown.
        if names and names[0].setting.default is not None:
            named = names[0].setting
            found.append(Synonym(named.name, named.text(named.default), ConfigSource.DEFAULT))
        return tuple(found)

    def with_dynamic(
        self, *, broker: Mapping[str, str], cluster: Mapping[str, str]
    ) -> "BrokerSettings":
        """The same start with other changes since: this broker's, then those for all brokers.

        They were checked when they were made; a name that only a later version knows is skipped.
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

    def _given(self, setting: Setting[Any]) -> Iterator[tuple[StandIn, Any, ConfigSource]]:
        """What the sources say. A source counts before its names: who sets hours on the command
        line means it, whatever a file says about milliseconds."""
        for layer in self._layers:
            for name in _names(setting):
                if name.setting.name in layer.values:
                    yield name, layer.values[name.setting.name], layer.source


def _names(setting: Setting[Any]) -> tuple[StandIn, ...]:
    """By what names a broker's sources can give this setting; the first one given counts."""
    own = (StandIn(setting),) if setting.scope is Scope.BROKER else ()
    return own + setting.stand_ins
