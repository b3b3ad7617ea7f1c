"""The definition of a setting: its name, value type, default and purpose."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.errors import OttlaError
from ottla.settings.kinds import Kind, NotAllowed

# The length to which an error shortens a wrong value.
SHOWN_CHARACTERS_MAX = 100

K = TypeVar("K")
D = TypeVar("D")
T = TypeVar("T")


class Scope(StrEnum):
    """The resource that has the setting."""

    TOPIC = "topic"
    BROKER = "broker"
    GROUP = "group"


class ConfigSource(IntEnum):
    """The source of a value in force, with DescribeConfigs' numbers."""

    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_GROUP = 8


class BadSetting(OttlaError):
    """The setting does not exist, or does not allow the value. The message says which."""


class UnknownSetting(BadSetting):
    """The setting does not exist. The message suggests a similar name."""


class Fallback(NamedTuple):
    """A broker's setting that is used where another is not set, in a unit `factor` times larger."""

    setting: "Setting[Any]"
    factor: int = 1

    def in_unit(self, value: Any) -> Any:
        """The fallback's value in the unit of the setting that it replaces."""
        # Negative values are special, not amounts: -1 hours means unlimited, as -1 ms does.
        return value * self.factor if self.factor > 1 and value > 0 else value


# Compared and hashed by identity: no two definitions are equal, and identity is fast.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting(Generic[T]):
    """One row of the table. Its values in force have type T."""

    name: str
    kind: Kind[Any]
    default: T
    scope: Scope
    # One sentence on its effect.
    purpose: str
    # Whether it can be changed while the broker runs.
    is_dynamic: bool
    # Used in this order if the setting itself is not set.
    fallbacks: tuple[Fallback, ...] = ()
    # DescribeConfigs shows this setting's value where the setting itself is not set.
    described_by: "Setting[Any] | None" = None
    # Why the default is not Kafka's.
    default_reason: str = ""
    # Why no value but the default is supported yet.
    unsupported_reason: str = ""

    def parse(self, text: str) -> T:
        """The value of a text. BadSetting names the setting, the text and the allowed values."""
        try:
            value: T = self.kind.parse(text)
        except NotAllowed as error:
            raise BadSetting(f"{self._invalid(text)}: must be {error}") from None
        if self.unsupported_reason and value != self.default:
            raise BadSetting(
                f"{self._invalid(text)}: must be {self.text(self.default) or 'empty'}, "
                f"other values are not supported yet: {self.unsupported_reason}"
            )
        return value

    def text(self, value: T) -> str | None:
        """The value as DescribeConfigs shows it: None if it is secret or not set."""
        if value is None or self.kind.is_secret:
            return None
        return self.kind.format(value)

    def _invalid(self, text: str) -> str:
        shown = "[hidden]" if self.kind.is_secret else text[:SHOWN_CHARACTERS_MAX]
        return f"Invalid value {shown} for configuration {self.name}"


class CoarserFallback(NamedTuple):
    """A broker's further name for a topic setting, in a unit `factor` times larger."""

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
    described_by: Setting[Any] | None = None,
    default_reason: str = "",
    unsupported_reason: str = "",
) -> Setting[K | D]:
    """A broker setting. Where it is not set, `older_name` is used, and DescribeConfigs shows the
    value of `described_by`."""
    fallbacks: tuple[Fallback, ...] = ()
    if older_name is not None:
        older = _fallback_setting(older_name, kind, None, f"An older name of `{name}`.")
        fallbacks = (Fallback(older),)
    return Setting(
        name=name,
        kind=kind,
        default=default,
        scope=Scope.BROKER,
        purpose=purpose,
        is_dynamic=is_dynamic,
        fallbacks=fallbacks,
        described_by=described_by,
        default_reason=default_reason,
        unsupported_reason=unsupported_reason,
    )


def topic_setting(
    name: str,
    kind: Kind[K],
    default: K,
    purpose: str,
    *,
    broker: str | None = None,
    coarser: tuple[CoarserFallback, ...] = (),
    unsupported_reason: str = "",
) -> Setting[K]:
    """A topic setting. `broker` is the broker's setting for topics that do not set it, and
    `coarser` are its further names at the broker.

    As in Kafka, only the first of several broker names is dynamic, and only the last has a default.
    """
    fallbacks = []
    if broker is not None:
        broker_wide = _fallback_setting(
            broker,
            kind,
            None if coarser else default,
            f"The value for topics that do not set `{name}`.",
            is_dynamic=True,
            unsupported_reason=unsupported_reason,
        )
        fallbacks.append(Fallback(broker_wide))
    for each in coarser:
        finer = fallbacks[-1].setting.name
        purpose_in_unit = f"The same in {each.kind.unit}, used if `{finer}` is not set."
        coarser_setting = _fallback_setting(each.name, each.kind, each.default, purpose_in_unit)
        fallbacks.append(Fallback(coarser_setting, each.factor))
    return Setting(
        name=name,
        kind=kind,
        default=default,
        scope=Scope.TOPIC,
        purpose=purpose,
        is_dynamic=True,
        fallbacks=tuple(fallbacks),
        unsupported_reason=unsupported_reason,
    )


def group_setting(name: str, broker: Setting[K], purpose: str) -> Setting[K]:
    """A group setting. `broker` is the broker's setting for groups that do not set it."""
    return Setting(
        name=name,
        kind=broker.kind,
        default=broker.default,
        scope=Scope.GROUP,
        purpose=purpose,
        is_dynamic=True,
        fallbacks=(Fallback(broker),),
    )


def _fallback_setting(
    name: str,
    kind: Kind[Any],
    default: Any,
    purpose: str,
    *,
    is_dynamic: bool = False,
    unsupported_reason: str = "",
) -> Setting[Any]:
    """A broker setting that is read only as a fallback of another."""
    return Setting(
        name=name,
        kind=kind,
        default=default,
        scope=Scope.BROKER,
        purpose=purpose,
        is_dynamic=is_dynamic,
        unsupported_reason=unsupported_reason,
    )


def stored_values(texts: Mapping[str, str], table: Mapping[str, Setting[Any]]) -> dict[str, Any]:
    """The values of stored settings, by name. They were validated when they were stored.

    Parsed by kind alone: internal topics may have values that users cannot set yet. Names that only
    a later version knows are skipped.
    """
    return {name: table[name].kind.parse(text) for name, text in texts.items() if name in table}
