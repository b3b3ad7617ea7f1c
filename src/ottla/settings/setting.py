"""A definition: what a setting is called, what it allows, what it is by default, what it is for."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.errors import OttlaError
from ottla.settings.kinds import Kind, NotAllowed

# How much of a wrong value an error shows.
SHOWN_CHARACTERS_MAX = 100

K = TypeVar("K")
D = TypeVar("D")
T = TypeVar("T")


class Scope(StrEnum):
    """Whose setting it is."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"


class ConfigSource(IntEnum):
    """Where a value in force comes from, by the numbers of DescribeConfigs."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_GROUP = 8


class BadSetting(OttlaError):
    """A setting that does not exist, or a value that it does not allow. The message says which."""


class UnknownSetting(BadSetting):
    """A setting that does not exist; the message says which was probably meant."""


class StandIn(NamedTuple):
    """A broker's setting that counts where another is not set, in a unit `factor` times as big."""

    setting: "Setting[Any]"
    factor: int = 1

    def in_unit(self, value: Any) -> Any:
        """What its value means for the setting it stands in for."""
        # Below zero is a meaning, not an amount: -1 hours are as unlimited as -1 ms.
        return value * self.factor if self.factor > 1 and value > 0 else value


# Two definitions are never the same one: compared and hashed by identity, which is also fast.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting(Generic[T]):
    """One line of the table, whose values in force are of type T."""

    name: str
    kind: Kind[Any]
    default: T
    scope: Scope
    # One sentence on what it does.
    purpose: str
    # Whether it can be changed while the broker runs.
    is_dynamic: bool
    # What counts if this is not set, the first one set before the others.
    stand_ins: tuple[StandIn, ...] = ()
    # Whose value is told where this is not set.
    told_by: "Setting[Any] | None" = None
    # Why the default is not Kafka's.
    default_reason: str = ""
    # Why no other value than the default is taken yet.
    only_default: str = ""

    def parse(self, text: str) -> T:
        """The value that this text is. BadSetting says name, value and what is allowed."""
        try:
            value: T = self.kind.parse(text)
        except NotAllowed as error:
            raise BadSetting(f"{self._invalid(text)}: allowed is {error}") from None
        if self.only_default and value != self.default:
            raise BadSetting(
                f"{self._invalid(text)}: allowed is only {self.text(self.default) or 'nothing'}, "
                f"other values are not supported yet: {self.only_default}"
            )
        return value

    def text(self, value: T) -> str | None:
        """As DescribeConfigs shows it: nothing of a secret, nothing of what is not set."""
        if value is None or self.kind.is_secret:
            return None
        return self.kind.format(value)

    def _invalid(self, text: str) -> str:
        shown = "[hidden]" if self.kind.is_secret else text[:SHOWN_CHARACTERS_MAX]
        return f"Invalid value {shown} for configuration {self.name}"


class Coarser(NamedTuple):
    """A broker's further name for a setting of its topics, in a unit `factor` times as big."""

    name: str
    kind: Kind[int]
    factor: int
    default: int | None = None


def broker_setting(
    name: str,
    kind: Kind[K],
    default: D,
    purpose: str,
    *,
    is_dynamic: bool = False,
    older_name: str | None = None,
    told_by: Setting[Any] | None = None,
    default_reason: str = "",
    only_default: str = "",
) -> Setting[K | D]:
    """A setting of the broker itself; `older_name` is one that counts where this is not set, and
    `told_by` one whose value says then what becomes of it."""
    stand_ins: tuple[StandIn, ...] = ()
    if older_name is not None:
        older = _behind(older_name, kind, None, f"An older name of `{name}`.")
        stand_ins = (StandIn(older),)
    return Setting(
        name=name,
        kind=kind,
        default=default,
        scope=Scope.BROKER,
        purpose=purpose,
        is_dynamic=is_dynamic,
        stand_ins=stand_ins,
        told_by=told_by,
        default_reason=default_reason,
        only_default=only_default,
    )


def topic_setting(
    name: str,
    kind: Kind[K],
    default: K,
    purpose: str,
    *,
    broker: str | None = None,
    coarser: tuple[Coarser, ...] = (),
    only_default: str = "",
) -> Setting[K]:
    """A setting of a topic; `broker` is what a broker calls it for topics that do not set it, and
    `coarser` are further names that it has there.

    As in Kafka, of several names that a broker has only the first can change while it runs, and
    only the last has a default.
    """
    stand_ins = []
    if broker is not None:
        broker_wide = _behind(
            broker,
            kind,
            None if coarser else default,
            f"What topics have that do not set `{name}`.",
            is_dynamic=True,
            only_default=only_default,
        )
        stand_ins.append(StandIn(broker_wide))
    for each in coarser:
        finer = stand_ins[-1].setting.name
        same = f"The same in {each.kind.unit}, where `{finer}` is not set."
        stand_ins.append(StandIn(_behind(each.name, each.kind, each.default, same), each.factor))
    return Setting(
        name=name,
        kind=kind,
        default=default,
        scope=Scope.TOPIC,
        purpose=purpose,
        is_dynamic=True,
        stand_ins=tuple(stand_ins),
        only_default=only_default,
    )


def group_setting(name: str, broker: Setting[K], purpose: str) -> Setting[K]:
    """A setting of a group; `broker` is what counts for groups that do not set it."""
    return Setting(
        name=name,
        kind=broker.kind,
        default=broker.default,
        scope=Scope.GROUP,
        purpose=purpose,
        is_dynamic=True,
        stand_ins=(StandIn(broker),),
    )


def _behind(
    name: str,
    kind: Kind[Any],
    default: Any,
    purpose: str,
    *,
    is_dynamic: bool = False,
    only_default: str = "",
) -> Setting[Any]:
    """A broker's setting that is read only through the one that it stands in for."""
    return Setting(
        name=name,
        kind=kind,
        default=default,
        scope=Scope.BROKER,
        purpose=purpose,
        is_dynamic=is_dynamic,
        only_default=only_default,
    )


def stored_values(texts: Mapping[str, str], table: Mapping[str, Setting[Any]]) -> dict[str, Any]:
    """Values of settings that were checked when they were stored, by name.

    Read by kind alone: topics of our own may have what nobody else may set yet. A name that only a
    later version knows is skipped.
    """
    return {name: table[name].kind.parse(text) for name, text in texts.items() if name in table}
