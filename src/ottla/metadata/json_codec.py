"""Encodes values as JSON by their types. Reading accepts only documents that writing can produce.

A dataclass is an object with exactly its fields, a NamedTuple an array, a `Uuid` Kafka's base64,
bytes are plain base64, and an enum is its value. Types of numbers and strings have their limits.
Both directions raise `JsonMismatch` for a value that does not match its type.

A field that was added to a dataclass later is `ADDED_LATER`: it is left out if it has its default.
So older documents can be read, and a value still has only one form.
"""

import base64
import json
from collections.abc import Callable, Set
from dataclasses import fields
from enum import Enum
from functools import lru_cache
from math import isfinite
from types import MappingProxyType, NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from ottla.protocol.primitives import Uuid

UUIDS_CACHED_MAX = 4_096
ROWS_CACHED_MAX = 4_096


class JsonMismatch(ValueError):
    """A value that does not match its type: `where`, from the outside in, and `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self._path: list[str] = []

    def inside(self, name: str) -> "JsonMismatch":
        """Adds the enclosing field or index to `where`."""
        self._path.append(name)
        return self

    @property
    def where(self) -> str:
        return ".".join(reversed(self._path)).replace(".[", "[")

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}" if self._path else self.reason


class Range(NamedTuple):
    """The smallest and the largest integer of a type."""

    least: int
    largest: int


class Length(NamedTuple):
    """The minimum and maximum length of the strings of a type, in characters."""

    least: int
    largest: int


class JsonCodec(NamedTuple):
    """Converts values of one type to JSON values and back."""

    write: Callable[[Any], Any]
    read: Callable[[Any], Any]


def codec_of(kind: Any) -> JsonCodec:
    """The codec of a type. TypeError for an unsupported type."""
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(kind, type):
        return _class_codec(kind)
    arguments = get_args(kind)
    origin = get_origin(kind)
    if origin is Annotated:
        return _limited_codec(*arguments)
    if origin in (Union, UnionType) and len(arguments) == 2 and arguments[1] is NoneType:
        return _optional_codec(codec_of(arguments[0]))
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return _list_codec(codec_of(arguments[0]))
    raise TypeError(f"{kind} has no form")


# The metadata of a dataclass field that older documents lack.
ADDED_LATER = MappingProxyType({"added later": True})


def object_codec(kind: type) -> JsonCodec:
    """The codec of a dataclass: a JSON object with exactly its fields."""
    hints = get_type_hints(kind, include_extras=True)
    forms = {each.name: codec_of(hints[each.name]) for each in fields(kind)}
    defaults = {each.name: each.default for each in fields(kind) if each.metadata == ADDED_LATER}

    writes = [(name, form.write) for name, form in forms.items()]
    reads: dict[tuple[str, ...], list[tuple[str, Callable[[Any], Any]]]] = {}

    def reads_of(found: dict[str, Any]) -> list[tuple[str, Callable[[Any], Any]]]:
        """The fields of an object, each with its reader."""
        expected = {name: form.read for name, form in forms.items() if name in found}
        if found.keys() != expected.keys() or forms.keys() - expected.keys() - defaults.keys():
            raise JsonMismatch(_difference(found, forms.keys() - defaults.keys(), forms.keys()))
        names = tuple(found)
        if names == tuple(sorted(names)):
            # As we write them. So there are few of these, and most objects have the same.
            reads[names] = list(expected.items())
        return list(expected.items())

    def write(value: Any) -> dict[str, Any]:
        written = {}
        name = ""
        try:
            for name, write_field in writes:
                written[name] = write_field(getattr(value, name))
        except JsonMismatch as mismatch:
            raise mismatch.inside(name) from None
        for name, default in defaults.items():
            if getattr(value, name) == default:
                del written[name]
        return written

    def read(found: Any) -> Any:
        _expect(found, dict)
        expected = reads.get(tuple(found)) or reads_of(found)
        values = {}
        name = ""
        try:
            for name, read_field in expected:
                values[name] = read_field(found[name])
        except JsonMismatch as mismatch:
            raise mismatch.inside(name) from None
        for name, default in defaults.items():
            if name in values and values[name] == default:
                raise JsonMismatch("a default, which is left out").inside(name)
        return kind(**values)

    return JsonCodec(write, read)


_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)


def dump(document: Any) -> bytes:
    """Compact, keys sorted, UTF-8: equal documents are equal bytes."""
    return _ENCODER.encode(document).encode()


def parse(content: bytes) -> Any:
    """Parses a JSON document. `JsonMismatch` if it is malformed or has a field twice."""
    try:
        return json.loads(
            content.decode(), object_pairs_hook=_unique, parse_constant=_refuse_constant
        )
    except JsonMismatch:
        raise
    except ValueError as error:
        raise JsonMismatch(f"no JSON: {error}") from None
    except RecursionError:
        raise JsonMismatch("no JSON of ours is nested this deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise JsonMismatch("a field stands twice in one object")
    return found


def _refuse_constant(name: str) -> None:
    raise JsonMismatch(f"{name} is no number")


def _difference(found: dict[str, Any], required: Set[str], known: Set[str]) -> str:
    unknown = sorted(found.keys() - known)
    if unknown:
        return f"field {unknown[0][:40]!r} is not known"
    return f"field {min(required - found.keys())!r} is missing"


def _expect(found: Any, kind: type) -> None:
    # Not isinstance: in Python True is an integer.
    if type(found) is not kind:
        raise JsonMismatch(f"{kind.__name__} expected, {type(found).__name__} found")


def _checked_codec(check: Callable[[Any], Any]) -> JsonCodec:
    return JsonCodec(check, check)


def _bool(value: Any) -> bool:
    _expect(value, bool)
    checked: bool = value
    return checked


def _float(value: Any) -> float:
    if type(value) is not float and type(value) is not int:
        raise JsonMismatch(f"a number expected, {type(value).__name__} found")
    try:
        checked = float(value)
    except OverflowError:
        checked = float("inf")
    if not isfinite(checked):
        raise JsonMismatch("a number that is not finite")
    return checked


# The partitions of a topic share its id.
_text_of = lru_cache(UUIDS_CACHED_MAX)(str)


def _write_uuid(value: Any) -> str:
    _expect(value, Uuid)
    return _text_of(value)


def _read_uuid(found: Any) -> Uuid:
    _expect(found, str)
    return _uuid_of(found)


@lru_cache(UUIDS_CACHED_MAX)
def _uuid_of(found: str) -> Uuid:
    try:
        value = Uuid.parse(found)
    except ValueError:
        value = None
    # Several strings decode to the same bytes; only one of them is the encoded form.
    if value is None or str(value) != found:
        raise JsonMismatch(f"{found[:40]!r} is no id")
    return value


def _write_bytes(value: Any) -> str:
    _expect(value, bytes)
    return base64.b64encode(value).decode()


def _read_bytes(found: Any) -> bytes:
    _expect(found, str)
    try:
        value = base64.b64decode(found, validate=True)
    except ValueError:
        value = None
    if value is None or _write_bytes(value) != found:
        raise JsonMismatch(f"{found[:40]!r} is no base64")
    return value


_PLAIN: dict[Any, JsonCodec] = {
    bool: _checked_codec(_bool),
    float: _checked_codec(_float),
    Uuid: JsonCodec(_write_uuid, _read_uuid),
    bytes: JsonCodec(_write_bytes, _read_bytes),
}


def _limited_codec(kind: type, limit: Range | Length) -> JsonCodec:
    least, largest = limit

    def check_integer(value: Any) -> int:
        if type(value) is not int:
            raise JsonMismatch(f"int expected, {type(value).__name__} found")
        if not least <= value <= largest:
            raise JsonMismatch(f"a number outside of [{least}, {largest}]")
        return value

    def check_text(value: Any) -> str:
        if type(value) is not str:
            raise JsonMismatch(f"str expected, {type(value).__name__} found")
        if not least <= len(value) <= largest:
            raise JsonMismatch(f"{len(value)} characters, outside of [{least}, {largest}]")
        if not value.isascii():
            _require_utf8(value)
        return value

    if kind is int:
        return _checked_codec(check_integer)
    if kind is str:
        return _checked_codec(check_text)
    raise TypeError(f"{kind} has no limit")


def _require_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise JsonMismatch("half of a surrogate pair") from None


def _optional_codec(form: JsonCodec) -> JsonCodec:
    return JsonCodec(
        lambda value: None if value is None else form.write(value),
        lambda found: None if found is None else form.read(found),
    )


def _list_codec(form: JsonCodec) -> JsonCodec:
    write_item, read_item = form

    def write(value: Any) -> list[Any]:
        _expect(value, tuple)
        if not value:
            # Most lists of a record are empty.
            return []
        try:
            return [write_item(item) for item in value]
        except JsonMismatch:
            raise _first_mismatch(value, write_item) from None

    def read(found: Any) -> tuple[Any, ...]:
        _expect(found, list)
        if not found:
            return ()
        try:
            return tuple([read_item(item) for item in found])
        except JsonMismatch:
            raise _first_mismatch(found, read_item) from None

    return JsonCodec(write, read)


def _first_mismatch(items: Any, convert: Callable[[Any], Any]) -> JsonMismatch:
    """The mismatch of the first item that cannot be converted, with its index."""
    for index, item in enumerate(items):
        try:
            convert(item)
        except JsonMismatch as mismatch:
            return mismatch.inside(f"[{index}]")
    raise AssertionError("all items were converted")


def _class_codec(kind: type) -> JsonCodec:
    if issubclass(kind, Enum):
        return _enum_codec(kind)
    if issubclass(kind, tuple):
        return _row_codec(kind)
    form = object_codec(kind)

    def write(value: Any) -> dict[str, Any]:
        _expect(value, kind)
        written: dict[str, Any] = form.write(value)
        return written

    return JsonCodec(write, form.read)


def _enum_codec(kind: type[Enum]) -> JsonCodec:
    members = {member.value: member for member in kind}

    def write(value: Any) -> Any:
        _expect(value, kind)
        return value.value

    def read(found: Any) -> Enum:
        _expect(found, str)
        if found not in members:
            raise JsonMismatch(f"{found[:40]!r} is no {kind.__name__}")
        return members[found]

    return JsonCodec(write, read)


def _row_codec(kind: type) -> JsonCodec:
    """A NamedTuple: small and frequent, so it is written without field names."""
    hints = get_type_hints(kind, include_extras=True)
    forms = [codec_of(hint) for hint in hints.values()]
    writes, reads = [form.write for form in forms], [form.read for form in forms]

    def write(value: Any) -> list[Any]:
        _expect(value, kind)
        return [write_item(item) for write_item, item in zip(writes, value, strict=True)]

    def make(*found: Any) -> Any:
        return kind(*[read_item(item) for read_item, item in zip(reads, found, strict=True)])

    # Equal rows are one object. By type, because in Python True equals 1.
    make_once = lru_cache(ROWS_CACHED_MAX, typed=True)(make)

    def read(found: Any) -> Any:
        _expect(found, list)
        if len(found) != len(forms):
            raise JsonMismatch(f"{len(forms)} values expected, {len(found)} found")
        try:
            return make_once(*found)
        except TypeError:
            # An item that has no hash.
            return make(*found)

    return JsonCodec(write, read)
