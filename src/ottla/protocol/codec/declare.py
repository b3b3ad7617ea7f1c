"""Declarations of messages: once, for all versions.

A field without a default is required when a message is built. `| None` means that the field is
nullable in some version; a tagged struct is None if the tag is absent.
"""

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, dataclass_transform

T = TypeVar("T")

FIRST_VERSION: Final = 0
LAST_VERSION: Final = 0x7FFF
_ABSENT: Final[Any] = object()


class Field(NamedTuple):
    """The properties of a declared field besides its name and type."""

    default: Any = _ABSENT
    since: int = FIRST_VERSION
    until: int = LAST_VERSION
    nullable_since: int = FIRST_VERSION
    tag: int | None = None
    ignorable: bool = False
    always_legacy: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is _ABSENT

    def is_in(self, version: int) -> bool:
        return self.since <= version <= self.until


def since(
    version: int,
    *,
    default: T,
    until: int = LAST_VERSION,
    nullable_since: int = FIRST_VERSION,
    ignorable: bool = False,
) -> T:
    """A field that versions below `version` (and above `until`) lack: they decode to `default`.

    Encoding another value than the default in those versions is an error unless `ignorable`. In
    versions below `nullable_since` the field cannot be null.
    """
    field: Any = Field(default, version, until, nullable_since, ignorable=ignorable)
    return field  # type: ignore[no-any-return]


def until(
    version: int, *, default: T, nullable_since: int = FIRST_VERSION, ignorable: bool = False
) -> T:
    """A field that versions above `version` lack; see `since`."""
    return since(
        FIRST_VERSION,
        until=version,
        default=default,
        nullable_since=nullable_since,
        ignorable=ignorable,
    )


def tagged(tag: int, *, since: int, default: T, ignorable: bool = False) -> T:
    """A tagged field: encoded from version `since` on, and only if it is not the default."""
    field: Any = Field(tag=tag, since=since, default=default, ignorable=ignorable)
    return field  # type: ignore[no-any-return]


def nullable_since(version: int) -> Any:
    """A required field of all versions that is nullable from `version` on."""
    return Field(nullable_since=version)


def always_legacy() -> Any:
    """A required field that keeps its legacy length in flexible versions too."""
    return Field(always_legacy=True)


class Schema(NamedTuple):
    """One declared class: its fields in wire order and, if it is a message, its versions."""

    declared: type[Any]
    fields: dict[str, Field]
    versions: tuple[int, int]
    flexible_from: int | None
    key: int | None

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


_SCHEMAS: dict[type[Any], Schema] = {}


def schema_of(declared: type[Any]) -> Schema:
    """The schema of a declared class. KeyError if the class is not declared."""
    return _SCHEMAS[declared]


def is_declared(candidate: object) -> bool:
    return candidate in _SCHEMAS


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(since, until, tagged, nullable_since, always_legacy),
)
def struct(declared: type[T]) -> type[T]:
    """A struct inside messages; it has the versions of the message that contains it."""
    return _declare(declared, versions=None, flexible=None, key=None)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(since, until, tagged, nullable_since, always_legacy),
)
def header(*, versions: tuple[int, int], flexible: int) -> Callable[[type[T]], type[T]]:
    """A request or response header; it has its own versions."""
    return functools.partial(_declare, versions=versions, flexible=flexible, key=None)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(since, until, tagged, nullable_since, always_legacy),
)
def request(
    *, key: int, versions: tuple[int, int], flexible: int | None
) -> Callable[[type[T]], type[T]]:
    """A request: its key, first and last version, and first flexible version (None: none)."""
    return functools.partial(_declare, versions=versions, flexible=flexible, key=key)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(since, until, tagged, nullable_since, always_legacy),
)
def response(*, to: type[Any]) -> Callable[[type[T]], type[T]]:
    """The response to a request; it has the same key and versions."""
    asked = schema_of(to)
    return functools.partial(
        _declare, versions=asked.versions, flexible=asked.flexible_from, key=asked.key
    )


def _declare(
    declared: type[T],
    *,
    versions: tuple[int, int] | None,
    flexible: int | None,
    key: int | None,
) -> type[T]:
    """Rebuilds the class with slots and the methods of a value."""
    fields = {name: _field(declared, name) for name in declared.__annotations__}
    kept = {
        name: value
        for name, value in declared.__dict__.items()
        if name not in fields and name not in ("__dict__", "__weakref__")
    }
    methods = {
        "__slots__": tuple(fields),
        "__init__": _initializer(fields),
        "__eq__": _equal,
        "__hash__": None,
        "__repr__": _representation,
    }
    rebuilt: Any = type(declared.__name__, declared.__bases__, kept | methods)
    _SCHEMAS[rebuilt] = Schema(
        rebuilt, fields, versions or (FIRST_VERSION, LAST_VERSION), flexible, key
    )
    return rebuilt  # type: ignore[no-any-return]


def _field(declared: type[Any], name: str) -> Field:
    given = declared.__dict__.get(name, _ABSENT)
    return given if isinstance(given, Field) else Field(default=given)


def _initializer(fields: dict[str, Field]) -> Callable[..., None]:
    """An `__init__` of plain assignments, with keyword arguments only.

    Only the type checker makes messages immutable: freezing them at run time would double the cost
    of building them.
    """
    defaults = {f"_{name}": field.default for name, field in fields.items()}
    parameters = [
        name if field.is_required else f"{name}=_{name}" for name, field in fields.items()
    ]
    assignments = [f"    self.{name} = {name}" for name in fields] or ["    pass"]
    signature = ", ".join(["self", "*", *parameters] if parameters else ["self"])
    namespace: dict[str, Any] = {}
    source = "\n".join([f"def __init__({signature}):", *assignments])
    exec(source, defaults, namespace)  # noqa: S102 the source consists of field names only
    initializer: Callable[..., None] = namespace["__init__"]
    return initializer


def _equal(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in type(self).__slots__)


def _representation(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{self.__class__.__name__}({fields})"
