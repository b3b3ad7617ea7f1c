"""How a message is declared: once, for all its versions.

A field without a default must be given wherever a message is built. `| None` means that some
version can say null; a tagged struct is None where the tag is absent.
"""

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, dataclass_transform

T = TypeVar("T")

FIRST_VERSION: Final = 0
LAST_VERSION: Final = 0x7FFF
_ABSENT: Final[Any] = object()


class Field(NamedTuple):
    """What a declaration says about a field besides its name and type."""

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

    Encoding another value than the default into them is an error unless `ignorable`. Versions below
    `nullable_since` have no null.
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
    """An optional field: from version `since` on the wire, and only where it is not the default."""
    field: Any = Field(tag=tag, since=since, default=default, ignorable=ignorable)
    return field  # type: ignore[no-any-return]


def nullable_since(version: int) -> Any:
    """A required field of all versions that can be null only from `version` on."""
    return Field(nullable_since=version)


def always_legacy() -> Any:
    """A required field that keeps its legacy length also in flexible versions."""
    return Field(always_legacy=True)


class Schema(NamedTuple):
    """One declared class: its fields in wire order, and, if it is a message, its versions."""

    declared: type[Any]
    fields: dict[str, Field]
    versions: tuple[int, int]
    flexible_from: int | None
    key: int | None

    def is_flexible(self, version: int) -> bool:
        return self.flexible_from is not None and version >= self.flexible_from


_SCHEMAS: dict[type[Any], Schema] = {}


def schema_of(declared: type[Any]) -> Schema:
    """The declaration behind a class. KeyError if the class is no message and no struct."""
    return _SCHEMAS[declared]


def is_declared(candidate: object) -> bool:
    return candidate in _SCHEMAS


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(since, until, tagged, nullable_since, always_legacy),
)
def struct(declared: type[T]) -> type[T]:
    """A part of messages, in the versions that the message around it has."""
    return _declare(declared, versions=None, flexible=None, key=None)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(since, until, tagged, nullable_since, always_legacy),
)
def header(*, versions: tuple[int, int], flexible: int) -> Callable[[type[T]], type[T]]:
    """What stands before a request or a response; its versions are its own."""
    return functools.partial(_declare, versions=versions, flexible=flexible, key=None)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(since, until, tagged, nullable_since, always_legacy),
)
def request(
    *, key: int, versions: tuple[int, int], flexible: int | None
) -> Callable[[type[T]], type[T]]:
    """A request: its key, first and last version, and the first flexible one (None: no version)."""
    return functools.partial(_declare, versions=versions, flexible=flexible, key=key)


@dataclass_transform(
    frozen_default=True,
    kw_only_default=True,
    field_specifiers=(since, until, tagged, nullable_since, always_legacy),
)
def response(*, to: type[Any]) -> Callable[[type[T]], type[T]]:
    """The response to a request, whose key and versions it shares."""
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
    """The class again, with slots and the methods of a value."""
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
    """An `__init__` of plain assignments, with named arguments only.

    A message is immutable by the type checker's word alone: freezing it at run time as well would
    double the cost of building it.
    """
    defaults = {f"_{name}": field.default for name, field in fields.items()}
    parameters = [
        name if field.is_required else f"{name}=_{name}" for name, field in fields.items()
    ]
    assignments = [f"    self.{name} = {name}" for name in fields] or ["    pass"]
    signature = ", ".join(["self", "*", *parameters] if parameters else ["self"])
    namespace: dict[str, Any] = {}
    source = "\n".join([f"def __init__({signature}):", *assignments])
    exec(source, defaults, namespace)  # noqa: S102 the source is made of field names alone
    initializer: Callable[..., None] = namespace["__init__"]
    return initializer


def _equal(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in type(self).__slots__)


def _representation(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{self.__class__.__name__}({fields})"
