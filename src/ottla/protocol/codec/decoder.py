"""Compiles a layout into one function that decodes it.

Adjacent fields of fixed size, including lengths and counts, are read by one `unpack`. Nested
structs are decoded inline. Each count is checked against the remaining bytes of the buffer, and the
sum of all counts against the caller's limit: an element may take a single byte on the wire, but
costs as much time and memory as any other.
"""

import struct
from collections.abc import Callable
from typing import Any

from ottla.protocol.codec.declare import schema_of
from ottla.protocol.codec.layout import (
    UUID,
    Array,
    Kind,
    Layout,
    Nested,
    Slot,
    size_min,
)
from ottla.protocol.codec.source import Piece, Source
from ottla.protocol.primitives import (
    STRING_BYTES_MAX,
    Buffer,
    DecodeError,
    Fixed,
    LengthPrefixed,
    Malformed,
    Uuid,
    decode_unsigned_varint,
)

# Arguments: buffer, start, end of the buffer, limit of elements in all arrays and tag sections.
# Result: the message, and its end.
DecodeFunction = Callable[[bytes | memoryview, int, int, int], tuple[Any, int]]

# More than fit into any buffer.
ELEMENTS_UNLIMITED = 1 << 62

_MALFORMED = (struct.error, IndexError, ValueError)


class Decoder:
    """Decodes one message in one version."""

    def __init__(self, layout: Layout, version: int) -> None:
        self._title = f"{layout.declared.__name__} v{version}"
        # A message without records is copied from its buffer anyway, and slicing bytes is twice as
        # fast as slicing a view. A header is not copied, since records may follow it.
        is_header = schema_of(layout.declared).key is None
        self._copies = not is_header and not layout.has_records
        self._source = _DecoderSource(layout, self._title, is_bytes=self._copies).source
        self._decode: DecodeFunction = self._source.compile("decode")

    def __call__(self, buffer: Buffer, position: int, elements_max: int) -> tuple[Any, int]:
        """The message at `position`, and its end. DecodeError."""
        view = bytes(buffer) if self._copies else memoryview(buffer)
        try:
            return self._decode(view, position, len(view), elements_max)
        except _MALFORMED as error:
            raise self._explain(error) from None

    def _explain(self, error: Exception) -> Exception:
        """Adds the field and the position to an error of the generated function."""
        failure = self._source.failure(error.__traceback__)
        if failure is None or not failure.pieces:
            return error
        position, end = failure.variables["p"], failure.variables["n"]
        path, reason = failure.pieces[-1].path, "the bytes end here"
        if isinstance(error, Malformed):
            reason = error.reason
            position = position if error.position is None else error.position
        elif isinstance(error, UnicodeDecodeError):
            reason, position = "not UTF-8", position + error.start
        else:
            path, position = _first_cut(failure.pieces, position, end)
        return DecodeError(self._title, path.format_map(failure.variables), position, reason)


def _first_cut(pieces: tuple[Piece, ...], position: int, end: int) -> tuple[str, int]:
    """Of values read together, the first that the buffer's end cuts, and its position."""
    for piece in pieces:
        if position + piece.size > end:
            return piece.path, position
        position += piece.size
    return pieces[-1].path, end


class _DecoderSource:
    """Writes the function. `b` is the buffer, `p` the position, `n` the end of the buffer, `e` the
    number of elements that are still allowed.
    """

    def __init__(self, layout: Layout, title: str, *, is_bytes: bool) -> None:
        self.source = Source(title, dict(_HELPERS))
        self._copy = "" if is_bytes else ".tobytes()"
        self._pending: list[tuple[str, Piece]] = []
        with self.source.block("def decode(b, p, n, e):"):
            message = self._struct(layout, "")
            self.source.add(f"return {message}, p")

    def _struct(self, layout: Layout, path: str) -> str:
        """Reads a struct into a new variable."""
        new = self.source.constant("Class", layout.declared)
        target = self.source.fresh("m")
        self.source.add(f"{target} = new({new})")
        uuids = []
        for slot in layout.plain:
            if slot.kind is UUID:
                uuids.append(f"{target}.{slot.name}")
            self._slot(slot, f"{target}.{slot.name}", path + slot.name)
        tag_count = self._read("B", 1, path + "(tags)") if layout.is_flexible else None
        self._flush()
        for uuid in uuids:
            self.source.add(f"{uuid} = uuid(Uuid, {uuid})")
        for slot in layout.absent + layout.tagged:
            self.source.add(f"{target}.{slot.name} = {self.source.literal(slot.default)}")
        if tag_count is not None:
            self._tags(layout, target, tag_count, path)
        return target

    def _slot(self, slot: Slot, target: str, path: str) -> None:
        if isinstance(slot.kind, Nested) and slot.is_nullable:
            marker = self._read("b", 1, path)
            self._flush()
            with self.source.block(f"if {marker} < 0:"):
                self.source.add(f"{target} = None")
            with self.source.block("else:"):
                self._value(slot.kind, slot, target, path)
        else:
            self._value(slot.kind, slot, target, path)

    def _value(self, kind: Kind, slot: Slot, target: str, path: str) -> None:
        match kind:
            case Fixed():
                self._read(kind.code, kind.size, path, target)
            case LengthPrefixed():
                self._span(kind, slot, target, path)
            case Nested(layout=layout):
                value = self._struct(layout, path + ".")
                self.source.add(f"{target} = {value}")
            case Array(element=element):
                self._array(element, slot, target, path)

    def _read(self, code: str, size: int, path: str, target: str | None = None) -> str:
        """Queues the next value, to be read together with its neighbours at the next flush."""
        target = target or self.source.fresh("x")
        self._pending.append((target, Piece(path, code, size)))
        return target

    def _flush(self) -> None:
        """Reads the queued values."""
        if not self._pending:
            return
        targets, pieces = zip(*self._pending, strict=True)
        self._pending = []
        codes = "".join(piece.code for piece in pieces)
        if codes == "B":
            self.source.add(f"{targets[0]} = b[p]", *pieces)
        else:
            unpack = self.source.struct_method("unpack_from", codes)
            self.source.add(f"({', '.join(targets)},) = {unpack}(b, p)", *pieces)
        self.source.add(f"p += {sum(piece.size for piece in pieces)}")

    def _length(self, slot: Slot, path: str, *, is_text: bool) -> str:
        """Reads a length or count into a variable: -1 is null."""
        here = Piece(path)
        if not slot.has_varint_length:
            length = self._read("h" if is_text else "i", 2 if is_text else 4, path)
            self._flush()
            return length
        length = self._read("B", 1, path)
        self._flush()
        with self.source.block(f"if {length} > 127:"):
            self.source.add(f"{length}, p = varint(b, p - 1)", here)
            if is_text:
                self.source.add(f"check_text({length} - 1)", here)
        self.source.add(f"{length} -= 1")
        return length

    def _span(self, kind: LengthPrefixed, slot: Slot, target: str, path: str) -> None:
        """A string, bytes or records: a length, and that many bytes."""
        here = Piece(path)
        length = self._length(slot, path, is_text=kind is LengthPrefixed.TEXT)
        content = {
            LengthPrefixed.TEXT: f"b[p:q]{self._copy}.decode()",
            LengthPrefixed.BLOB: f"b[p:q]{self._copy}",
            LengthPrefixed.RECORDS: "b[p:q]",
        }[kind]
        if not slot.is_nullable:
            self._content(length, target, content, here)
            return
        with self.source.block(f"if {length} == -1:"):
            self.source.add(f"{target} = None")
        with self.source.block("else:"):
            self._content(length, target, content, here)

    def _content(self, length: str, target: str, content: str, here: Piece) -> None:
        self.source.add(f"q = p + {length}")
        with self.source.block("if not p <= q <= n:"):
            self.source.add(f"bad_length({length}, n - p)", here)
        self.source.add(f"{target} = {content}", here)
        self.source.add("p = q")

    def _array(self, element: Kind, slot: Slot, target: str, path: str) -> None:
        here = Piece(path)
        count = self._length(slot, path, is_text=False)
        smallest = size_min(element, has_varint_length=slot.has_varint_length)
        if smallest == 0:
            raise TypeError(f"{path} has elements of zero bytes, whose count would be unlimited")
        with self.source.block(f"if {count} > 0:"):
            with self.source.block(f"if {count} * {smallest} > n - p:"):
                self.source.add(f"bad_count({count}, n - p)", here)
            self._spend(count, here)
            if isinstance(element, Fixed):
                self.source.add(f"{target} = unpack_from(f'>{{{count}}}{element.code}', b, p)")
                self.source.add(f"p += {count} * {element.size}")
            else:
                self._elements(element, slot, count, target, path)
        if slot.is_nullable:
            with self.source.block(f"elif {count} == -1:"):
                self.source.add(f"{target} = None")
        with self.source.block(f"elif {count} < 0:"):
            self.source.add(f"bad_count({count}, n - p)", here)
        with self.source.block("else:"):
            self.source.add(f"{target} = ()")

    def _spend(self, count: str, here: Piece) -> None:
        self.source.add(f"e -= {count}")
        with self.source.block("if e < 0:"):
            self.source.add(f"too_many({count})", here)

    def _elements(self, element: Kind, slot: Slot, count: str, target: str, path: str) -> None:
        elements, index = self.source.fresh("a"), self.source.fresh("i")
        path = f"{path}[{{{index}}}]"
        self.source.add(f"{elements} = []")
        with self.source.block(f"for {index} in range({count}):"):
            if isinstance(element, Nested):
                value = self._struct(element.layout, path + ".")
            else:
                value = self.source.fresh("x")
                self._value(element, _element_slot(slot, element), value, path)
            self.source.add(f"{elements}.append({value})")
        self.source.add(f"{target} = tuple({elements})")

    def _tags(self, layout: Layout, target: str, count: str, path: str) -> None:
        """The tag section: known tags are read, others are skipped."""
        here = Piece(path + "(tags)")
        with self.source.block(f"if {count}:"):
            if not layout.tagged:
                self.source.add("p, e = skip_tags(b, p - 1, n, e)", here)
                return
            tag, end, last = (self.source.fresh(name) for name in ("tag", "end", "last"))
            self.source.add(f"{count}, p = varint(b, p - 1)", here)
            self._spend(count, here)
            self.source.add(f"{last} = -1")
            with self.source.block(f"for _ in range({count}):"):
                self.source.add(f"{tag}, p, {end} = open_tag(b, p, n, {last})", here)
                self.source.add(f"{last} = {tag}")
                keyword = "if"
                for slot in layout.tagged:
                    with self.source.block(f"{keyword} {tag} == {slot.tag}:"):
                        self._tagged(slot, f"{target}.{slot.name}", end, path + slot.name)
                    keyword = "elif"
                with self.source.block("else:"):
                    self.source.add(f"p = {end}")

    def _tagged(self, slot: Slot, target: str, end: str, path: str) -> None:
        self._slot(slot, target, path)
        self._flush()
        if slot.kind is UUID:
            self.source.add(f"{target} = uuid(Uuid, {target})")
        with self.source.block(f"if p != {end}:"):
            self.source.add("bad_tag_size()", Piece(path))


def _element_slot(slot: Slot, element: Kind) -> Slot:
    """The slot of an array's elements: like the array's own, but never null."""
    return Slot(
        name=slot.name,
        kind=element,
        default=None,
        is_present=True,
        is_nullable=False,
        has_varint_length=slot.has_varint_length,
        is_ignorable=False,
        tag=None,
    )


def _check_text(length: int) -> None:
    if length > STRING_BYTES_MAX:
        raise Malformed(f"a string of {length} bytes, more than {STRING_BYTES_MAX}")


def _bad_length(length: int, left: int) -> None:
    if length < 0:
        raise Malformed(f"length {length}, which this version does not allow")
    raise Malformed(f"length {length}, but {left} bytes are left")


def _bad_count(count: int, left: int) -> None:
    if count < 0:
        raise Malformed(f"count {count}, which this version does not allow")
    raise Malformed(f"{count} elements cannot fit into the {left} bytes that are left")


def _too_many(count: int) -> None:
    raise Malformed(f"{count} elements are more than the message may still have")


def _bad_tag_size() -> None:
    raise Malformed("the length of a tagged field does not match its size")


def _open_tag(
    buffer: bytes | memoryview, position: int, end: int, last: int
) -> tuple[int, int, int]:
    """A tag, and the start and end of its field. Tags must be in ascending order."""
    tag, after_tag = decode_unsigned_varint(buffer, position)
    if tag <= last:
        raise Malformed(f"tag {tag} after tag {last}", position)
    size, begin = decode_unsigned_varint(buffer, after_tag)
    if size > end - begin:
        raise Malformed(f"tag {tag} of {size} bytes, but {end - begin} are left", after_tag)
    return tag, begin, begin + size


def _skip_tags(
    buffer: bytes | memoryview, position: int, end: int, elements_left: int
) -> tuple[int, int]:
    """Skips a tag section. Returns its end and the number of elements that are still allowed."""
    count, position = decode_unsigned_varint(buffer, position)
    if count > elements_left:
        _too_many(count)
    last = -1
    for _ in range(count):
        last, _begin, position = _open_tag(buffer, position, end, last)
    return position, elements_left - count


_HELPERS: dict[str, Any] = {
    "new": object.__new__,
    "Uuid": Uuid,
    # The struct guarantees the length, so the check in Uuid's constructor is skipped.
    "uuid": bytes.__new__,
    "unpack_from": struct.unpack_from,
    "varint": decode_unsigned_varint,
    "check_text": _check_text,
    "bad_length": _bad_length,
    "bad_count": _bad_count,
    "too_many": _too_many,
    "bad_tag_size": _bad_tag_size,
    "open_tag": _open_tag,
    "skip_tags": _skip_tags,
}
