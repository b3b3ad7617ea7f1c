"""What a message looks like in one version: the declaration, resolved.

Everything that depends on the version alone is decided here, so that the compilers only write code.
"""

import types
import typing
from typing import Any, NamedTuple

from ottla.protocol.codec.declare import Field, Schema, is_declared, schema_of
from ottla.protocol.primitives import Fixed, Span, Uuid


class Nested(NamedTuple):
    """A struct, field by field; a nullable one after a byte that says whether it is there."""

    layout: "Layout"


class Many(NamedTuple):
    """Elements after their count."""

    element: "Kind"


Kind = Fixed | Span | Nested | Many

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
        """What is always on the wire, in its order."""
        return [slot for slot in self.slots if slot.is_present and slot.tag is None]

    @property
    def tagged(self) -> list[Slot]:
        """What may follow in the tag section, in its order."""
        tags = [slot for slot in self.slots if slot.is_present and slot.tag is not None]
        return sorted(tags, key=lambda slot: slot.tag or 0)

    @property
    def absent(self) -> list[Slot]:
        return [slot for slot in self.slots if not slot.is_present]

    @property
    def size_min(self) -> int:
        """No encoding is shorter: bounds what a count may claim."""
        return sum(_slot_size_min(slot) for slot in self.plain) + self.is_flexible

    @property
    def has_records(self) -> bool:
        return any(slot.is_present and _has_records(slot.kind) for slot in self.slots)


def layout_of(declared: type[Any], version: int) -> Layout:
    """The message in a version. ValueError if it has no such version."""
    schema = schema_of(declared)
    first, last = schema.versions
    if not first <= version <= last:
        raise ValueError(f"{declared.__name__} has no version {version}, only {first} to {last}")
    return _layout(schema, version, schema.is_flexible(version))


def size_min(kind: Kind, *, has_varint_length: bool) -> int:
    """The fewest bytes that a value of this kind takes."""
    match kind:
        case Fixed(size=size):
            return size
        case Nested(layout=layout):
            return layout.size_min
        case Span.TEXT:
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
    # A tag that is absent already says what null would.
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
        return Many(_element(typing.get_args(hint)[0], version, is_flexible))
    if hasattr(hint, "__metadata__"):
        kind: Fixed | Span = hint.__metadata__[0]
        return kind
    return _PLAIN_KINDS[hint]


def _element(hint: Any, version: int, is_flexible: bool) -> Kind:
    """What an array holds. No message has an array of uuids, and the compilers know none."""
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
        case Span.RECORDS:
            return True
        case Nested(layout=layout):
            return layout.has_records
        case Many(element=element):
            return _has_records(element)
        case _:
            return False


_PLAIN_KINDS: dict[Any, Kind] = {bool: BOOL, str: Span.TEXT, bytes: Span.BLOB, Uuid: UUID}
