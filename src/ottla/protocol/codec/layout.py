"""The layout of a message in one version: its declaration, resolved.

Everything that depends only on the version is decided here, so that the decoder and encoder
compilers only write code.
"""

import types
import typing
from typing import Any, NamedTuple

from ottla.protocol.codec.declare import Field, Schema, is_declared, schema_of
from ottla.protocol.primitives import Fixed, LengthPrefixed, Uuid


class Nested(NamedTuple):
    """A struct, field by field; a nullable struct follows a byte that says if it is present."""

    layout: "Layout"


class Array(NamedTuple):
    """A count, followed by that many elements."""

    element: "Kind"


Kind = Fixed | LengthPrefixed | Nested | Array

BOOL = Fixed("?", 1)
UUID = Fixed("16s", 16)


class Slot(NamedTuple):
    """A field in one version."""

    name: str
    kind: Kind
    default: Any
    is_present: bool
    is_nullable: bool
    has_varint_length: bool
    is_ignorable: bool
    tag: int | None


class Layout(NamedTuple):
    """A message or struct in one version."""

    declared: type[Any]
    slots: tuple[Slot, ...]
    is_flexible: bool

    @property
    def plain(self) -> list[Slot]:
        """The fields that are always on the wire, in wire order."""
        return [slot for slot in self.slots if slot.is_present and slot.tag is None]

    @property
    def tagged(self) -> list[Slot]:
        """The fields of the tag section, in the order of their tags."""
        tags = [slot for slot in self.slots if slot.is_present and slot.tag is not None]
        return sorted(tags, key=lambda slot: slot.tag or 0)

    @property
    def absent(self) -> list[Slot]:
        return [slot for slot in self.slots if not slot.is_present]

    @property
    def size_min(self) -> int:
        """The smallest possible encoded size; it limits the counts that are plausible."""
        return sum(_slot_size_min(slot) for slot in self.plain) + self.is_flexible

    @property
    def has_records(self) -> bool:
        return any(slot.is_present and _has_records(slot.kind) for slot in self.slots)


def layout_of(declared: type[Any], version: int) -> Layout:
    """The layout of a message in a version. ValueError if it has no such version."""
    schema = schema_of(declared)
    first, last = schema.versions
    if not first <= version <= last:
        raise ValueError(f"{declared.__name__} has no version {version}, only {first} to {last}")
    return _layout(schema, version, schema.is_flexible(version))


def size_min(kind: Kind, *, has_varint_length: bool) -> int:
    """The smallest encoded size of a value of this kind."""
    match kind:
        case Fixed(size=size):
            return size
        case Nested(layout=layout):
            return layout.size_min
        case LengthPrefixed.TEXT:
            return 1 if has_varint_length else 2
        case _:
            return 1 if has_varint_length else 4


def _layout(schema: Schema, version: int, is_flexible: bool) -> Layout:
    hints = typing.get_type_hints(schema.declared, include_extras=True)
    slots = [
        _slot(name, field, hints[name], version, is_flexible)
        for name, field in schema.fields.items()
    ]
    return Layout(schema.declared, tuple(slots), is_flexible)


def _slot(name: str, field: Field, hint: Any, version: int, is_flexible: bool) -> Slot:
    bare, is_optional = _without_none(hint)
    kind = _kind(bare, version, is_flexible)
    # For a tagged struct an absent tag means null.
    is_tagged_struct = field.tag is not None and isinstance(kind, Nested)
    return Slot(
        name=name,
        kind=kind,
        default=None if field.is_required else field.default,
        is_present=field.is_in(version),
        is_nullable=is_optional and version >= field.nullable_since and not is_tagged_struct,
        has_varint_length=is_flexible and not field.always_legacy,
        is_ignorable=field.ignorable,
        tag=field.tag,
    )


def _without_none(hint: Any) -> tuple[Any, bool]:
    """A type without its `| None`, and whether it had one."""
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint, False
    others = [option for option in typing.get_args(hint) if option is not types.NoneType]
    return typing.Union[tuple(others)], len(others) < len(typing.get_args(hint))  # noqa: UP007


def _kind(hint: Any, version: int, is_flexible: bool) -> Kind:
    if is_declared(hint):
        return Nested(_layout(schema_of(hint), version, is_flexible))
    if typing.get_origin(hint) is tuple:
        return Array(_element(typing.get_args(hint)[0], version, is_flexible))
    if hasattr(hint, "__metadata__"):
        kind: Fixed | LengthPrefixed = hint.__metadata__[0]
        return kind
    return _PLAIN_KINDS[hint]


def _element(hint: Any, version: int, is_flexible: bool) -> Kind:
    """The kind of an array's elements. Arrays of uuids are not supported: no message has one."""
    kind = _kind(hint, version, is_flexible)
    if kind is UUID:
        raise TypeError("an array of uuids")
    return kind


def _slot_size_min(slot: Slot) -> int:
    if slot.is_nullable and isinstance(slot.kind, Nested):
        return 1
    return size_min(slot.kind, has_varint_length=slot.has_varint_length)


def _has_records(kind: Kind) -> bool:
    match kind:
        case LengthPrefixed.RECORDS:
            return True
        case Nested(layout=layout):
            return layout.has_records
        case Array(element=element):
            return _has_records(element)
        case _:
            return False


_PLAIN_KINDS: dict[Any, Kind] = {
    bool: BOOL,
    str: LengthPrefixed.TEXT,
    bytes: LengthPrefixed.BLOB,
    Uuid: UUID,
}
