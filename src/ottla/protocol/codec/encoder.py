"""Compiles a layout into one function that encodes it.

Adjacent fields of fixed size, including lengths and counts, are written by one `pack`. Nested
structs are encoded inline. Records become a separate part and are never copied.
"""

import functools
import struct
from collections.abc import Callable
from typing import Any

from ottla.protocol.codec.layout import Array, Kind, Layout, Nested, Slot
from ottla.protocol.codec.source import Failure, Piece, Source
from ottla.protocol.primitives import (
    SHORT_VARINTS,
    STRING_BYTES_MAX,
    EncodeError,
    Fixed,
    LengthPrefixed,
    Part,
    encode_unsigned_varint,
)

# Arrays of fewer integers than this have a precompiled struct per length.
_SHORT_ARRAY = 16

_UNFIT = (struct.error, AttributeError, TypeError, ValueError, OverflowError)


class Encoder:
    """Encodes one message in one version."""

    def __init__(self, layout: Layout, version: int) -> None:
        self._title = f"{layout.declared.__name__} v{version}"
        self._source = _EncoderSource(layout, self._title).source
        self._encode: Callable[[Any], list[Part]] = self._source.compile("encode")

    def __call__(self, message: Any) -> list[Part]:
        """The message's bytes, split only at records. EncodeError."""
        try:
            return self._encode(message)
        except _UNFIT as error:
            failure = self._source.failure(error.__traceback__)
            if failure is None or not failure.pieces:
                raise
            path = _culprit(failure).path.format_map(_Indices(failure.variables))
            raise EncodeError(self._title, path, str(error)) from error


class _Indices(dict[str, Any]):
    """Maps a loop variable's name to its current index: the loops keep no counter."""

    def __getitem__(self, name: str) -> int:
        element = super().__getitem__(name)
        array = super().__getitem__(f"all_{name}")
        return next(index for index, other in enumerate(array) if other is element)


def _culprit(failure: Failure) -> Piece:
    """Of values packed together, the one that does not fit its code."""
    for piece in failure.pieces:
        variable, _, attribute = piece.value.partition(".")
        if variable not in failure.variables:
            continue  # a constant
        value = failure.variables[variable]
        try:
            struct.pack(">" + piece.code, getattr(value, attribute) if attribute else value)
        except _UNFIT:
            return piece
    return failure.pieces[-1]


class _EncoderSource:
    """Writes the function. `o` collects bytes; with records, `parts` collects finished parts."""

    def __init__(self, layout: Layout, title: str) -> None:
        self.source = Source(title, dict(_HELPERS))
        self._out = "o"
        self._pending: list[Piece] = []
        with self.source.block("def encode(m):"):
            self.source.add("o = []")
            if layout.has_records:
                self.source.add("parts = []")
            self._struct(layout, "m", "")
            self._flush()
            if layout.has_records:
                with self.source.block("if o:"):
                    self.source.add("parts.append(join(o))")
                self.source.add("return parts")
            else:
                self.source.add("return [join(o)]")

    def _struct(self, layout: Layout, message: str, path: str) -> None:
        for slot in layout.absent:
            if not slot.is_ignorable:
                with self.source.block(
                    f"if {self._is_set(slot, message)}:", Piece(path + slot.name)
                ):
                    self.source.add("refuse_absent()", Piece(path + slot.name))
        for slot in layout.plain:
            self._slot(slot, f"{message}.{slot.name}", path + slot.name)
        if layout.tagged:
            self._tags(layout.tagged, message, path)
        elif layout.is_flexible:
            self._pending.append(Piece(path + "(tags)", "x"))

    def _is_set(self, slot: Slot, message: str) -> str:
        """An expression: the field is not at its default."""
        if slot.default is None:
            return f"{message}.{slot.name} is not None"
        return f"{message}.{slot.name} != {self.source.literal(slot.default)}"

    def _slot(self, slot: Slot, value: str, path: str) -> None:
        if isinstance(slot.kind, Fixed):
            self._pending.append(Piece(path, slot.kind.code, value=value))
            return
        variable = self.source.fresh("v")
        self.source.add(f"{variable} = {value}", Piece(path))
        if not slot.is_nullable:
            self._value(slot.kind, slot, variable, path)
            return
        before, self._pending = self._pending, []
        with self.source.block(f"if {variable} is None:"):
            self._append([*before, _null(slot, path)])
        with self.source.block("else:"):
            self._pending = before
            if isinstance(slot.kind, Nested):
                self._pending.append(Piece(path, "b", value="present"))
            self._value(slot.kind, slot, variable, path)
            self._flush()

    def _value(self, kind: Kind, slot: Slot, variable: str, path: str) -> None:
        match kind:
            case LengthPrefixed.TEXT:
                self._text(slot, variable, path)
            case LengthPrefixed.BLOB:
                self._length(slot, self._measure(variable, path), path, "i")
                self.source.add(f"{self._out}.append({variable})")
            case LengthPrefixed.RECORDS:
                self._records(slot, variable, path)
            case Nested(layout=layout):
                self._struct(layout, variable, path + ".")
            case Array(element=Fixed(code=code)):
                self._integers(slot, code, variable, path)
            case Array(element=element):
                self._length(slot, self._measure(variable, path), path, "i")
                self._elements(element, slot, variable, path)

    def _append(self, pieces: list[Piece]) -> None:
        """Writes several values by one call."""
        codes = "".join(piece.code for piece in pieces)
        if codes == "x":
            self.source.add(f"{self._out}.append(b'\\0')")
        elif codes:
            values = ", ".join(piece.value for piece in pieces if piece.value)
            pack = self.source.struct_method("pack", codes)
            self.source.add(f"{self._out}.append({pack}({values}))", *pieces)

    def _flush(self) -> None:
        pieces, self._pending = self._pending, []
        self._append(pieces)

    def _measure(self, variable: str, path: str) -> str:
        length = self.source.fresh("k")
        self.source.add(f"{length} = len({variable})", Piece(path))
        return length

    def _length(self, slot: Slot, length: str, path: str, code: str) -> None:
        """Writes a length or count, together with the pending values."""
        if not slot.has_varint_length:
            self._pending.append(Piece(path, code, value=length))
            self._flush()
            return
        pieces, self._pending = self._pending, []
        self.source.add(f"{length} += 1")
        with self.source.block(f"if {length} < 128:"):
            if pieces:
                self._append([*pieces, Piece(path, "B", value=length)])
            else:
                self.source.add(f"{self._out}.append(short_varints[{length}])")
        with self.source.block("else:"):
            self._append(pieces)
            varint = "text_length" if code == "h" else "varint"
            self.source.add(f"{self._out}.append({varint}({length}))", Piece(path))

    def _text(self, slot: Slot, variable: str, path: str) -> None:
        encoded = self.source.fresh("e")
        self.source.add(f"{encoded} = {variable}.encode()", Piece(path))
        self._length(slot, self._measure(encoded, path), path, "h")
        self.source.add(f"{self._out}.append({encoded})")

    def _records(self, slot: Slot, variable: str, path: str) -> None:
        size = self._measure(variable, path)
        self._length(slot, size, path, "i")
        with self.source.block(f"if len({variable}):"):
            self.source.add("parts.append(join(o))")
            self.source.add("o.clear()")
            self.source.add(f"parts.append({variable})")

    def _integers(self, slot: Slot, code: str, variable: str, path: str) -> None:
        """Writes an array of numbers and its count by one `pack`."""
        self._flush()
        count = self._measure(variable, path)
        if slot.has_varint_length:
            short = self.source.constant("short_arrays", _short_arrays("B", code))
            few = f"{short}[{count}]({count} + 1, *{variable})"
            many = f"varint({count} + 1) + pack(f'>{{{count}}}{code}', *{variable})"
        else:
            short = self.source.constant("short_arrays", _short_arrays("i", code))
            few = f"{short}[{count}]({count}, *{variable})"
            many = f"pack(f'>i{{{count}}}{code}', {count}, *{variable})"
        chosen = f"{few} if {count} < {_SHORT_ARRAY} else {many}"
        self.source.add(f"{self._out}.append({chosen})", Piece(path))

    def _elements(self, element: Kind, slot: Slot, variable: str, path: str) -> None:
        each = self.source.fresh("m")
        path = f"{path}[{{{each}}}]"
        self.source.add(f"all_{each} = {variable}")
        with self.source.block(f"for {each} in {variable}:"):
            self._value(element, slot, each, path)
            self._flush()

    def _tags(self, slots: list[Slot], message: str, path: str) -> None:
        """Writes the tag section; in most messages it is one zero byte."""
        before, self._pending = self._pending, []
        any_set = " or ".join(self._is_set(slot, message) for slot in slots)
        with self.source.block(f"if {any_set}:", Piece(path + "(tags)")):
            self._append(before)
            fields = self.source.fresh("tags")
            self.source.add(f"{fields} = []")
            for slot in slots:
                with self.source.block(f"if {self._is_set(slot, message)}:"):
                    self._tagged(slot, message, path, fields)
            self.source.add(f"{self._out}.append(varint(len({fields})))")
            self.source.add(f"{self._out} += {fields}")
        with self.source.block("else:"):
            self._append([*before, Piece(path + "(tags)", "x")])

    def _tagged(self, slot: Slot, message: str, path: str, fields: str) -> None:
        outer, self._out = self._out, self.source.fresh("o")
        self.source.add(f"{self._out} = []")
        self._slot(slot, f"{message}.{slot.name}", path + slot.name)
        self._flush()
        self.source.add(f"{fields}.append(tagged({slot.tag}, join({self._out})))")
        self._out = outer


def _null(slot: Slot, path: str) -> Piece:
    """The encoding of null."""
    if isinstance(slot.kind, Nested):
        return Piece(path, "b", value="absent")
    if slot.has_varint_length:
        return Piece(path, "x")
    return Piece(path, "h" if slot.kind is LengthPrefixed.TEXT else "i", value="absent")


@functools.cache
def _short_arrays(count_code: str, code: str) -> tuple[Callable[..., bytes], ...]:
    """The `pack` functions of short arrays with their count, by length."""
    return tuple(struct.Struct(f">{count_code}{n}{code}").pack for n in range(_SHORT_ARRAY))


def _text_length(length_and_one: int) -> bytes:
    if length_and_one - 1 > STRING_BYTES_MAX:
        raise ValueError(f"a string of {length_and_one - 1} bytes, more than {STRING_BYTES_MAX}")
    return encode_unsigned_varint(length_and_one)


def _tagged(tag: int, field: bytes) -> bytes:
    return encode_unsigned_varint(tag) + encode_unsigned_varint(len(field)) + field


def _refuse_absent() -> None:
    raise ValueError("this version has no such field, and its value is not the default")


_HELPERS: dict[str, Any] = {
    "present": 1,
    "absent": -1,
    "join": b"".join,
    "pack": struct.pack,
    "varint": encode_unsigned_varint,
    "short_varints": SHORT_VARINTS,
    "text_length": _text_length,
    "tagged": _tagged,
    "refuse_absent": _refuse_absent,
}
