"""Entries of the metadata log as bytes, on disk and in ZooKeeper.

An entry has the records of one commit, as one JSON document:

    {"format":1,"records":[{"type":"EpochFloor","epoch":7}]}
"""

from collections.abc import Iterable
from itertools import count
from typing import Any, get_args

from ottla.errors import OttlaError, StorageError
from ottla.metadata.json_codec import JsonMismatch, dump, object_codec, parse
from ottla.metadata.records import InvalidRecord, Record, check

ENTRY_BYTES_MAX = 512 << 10
FORMAT = 1


class EntryTooLarge(OttlaError):
    """More records than one entry may hold; nothing was written."""

    def __init__(self, size_bytes: int) -> None:
        super().__init__(f"an entry of {size_bytes} bytes where {ENTRY_BYTES_MAX} are allowed")
        self.size_bytes = size_bytes


class CorruptEntry(StorageError):
    """Bytes that are not an entry: `where` in the document, and `reason`."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}" if where else reason)
        self.where = where
        self.reason = reason


_CODECS = {kind.__name__: object_codec(kind) for kind in get_args(Record)}
_EMPTY_BYTES = len(b'{"format":%d,"records":[]}' % FORMAT)


def encode(records: Iterable[Record]) -> bytes:
    """One entry. EntryTooLarge above 512 KiB, InvalidRecord if `decode` would refuse a record."""
    entry = dump({"format": FORMAT, "records": [_write(record) for record in records]})
    if len(entry) > ENTRY_BYTES_MAX:
        raise EntryTooLarge(len(entry))
    return entry


class EntryPacker:
    """Packs the records of a snapshot into as few entries as possible."""

    def __init__(self) -> None:
        self._full: list[bytes] = []
        self._pieces: list[bytes] = []
        self._size_bytes = _EMPTY_BYTES

    def add(self, record: Record) -> None:
        """InvalidRecord or EntryTooLarge if it is refused: then it was not added."""
        piece = dump(_write(record))
        # With the comma before it.
        piece_bytes = len(piece) + 1
        if _EMPTY_BYTES + piece_bytes > ENTRY_BYTES_MAX:
            raise EntryTooLarge(_EMPTY_BYTES + piece_bytes)
        if self._size_bytes + piece_bytes > ENTRY_BYTES_MAX:
            self._full.append(_document_of(self._pieces))
            self._pieces, self._size_bytes = [], _EMPTY_BYTES
        self._pieces.append(piece)
        self._size_bytes += piece_bytes

    def entries(self) -> list[bytes]:
        return [*self._full, _document_of(self._pieces)] if self._pieces else list(self._full)


def decode(entry: bytes) -> tuple[Record, ...]:
    """The records of an entry. CorruptEntry for bytes that `encode` cannot have written."""
    if len(entry) > ENTRY_BYTES_MAX:
        raise CorruptEntry("", f"{len(entry)} bytes, {ENTRY_BYTES_MAX} are allowed")
    try:
        return tuple(map(_read_at, count(), _records_of(parse(entry))))
    except JsonMismatch as mismatch:
        raise CorruptEntry(mismatch.where, mismatch.reason) from None


def _document_of(pieces: Iterable[bytes]) -> bytes:
    return b'{"format":%d,"records":[%b]}' % (FORMAT, b",".join(pieces))


def _records_of(document: Any) -> list[Any]:
    if type(document) is not dict or document.get("format") is None:
        raise JsonMismatch("an object with its format expected")
    if type(document["format"]) is not int or document["format"] != FORMAT:
        raise JsonMismatch(f"format {str(document['format'])[:40]}, only {FORMAT} is known")
    if document.keys() != {"format", "records"} or type(document["records"]) is not list:
        raise JsonMismatch("a list of records expected, and nothing else")
    records: list[Any] = document["records"]
    return records


def _read_at(index: int, document: Any) -> Record:
    try:
        return _read(document)
    except JsonMismatch as mismatch:
        raise mismatch.inside(f"records[{index}]") from None


def _write(record: Record) -> dict[str, Any]:
    check(record)
    name = type(record).__name__
    try:
        return {"type": name, **_CODECS[name].write(record)}
    except JsonMismatch as mismatch:
        raise InvalidRecord(f"{name}.{mismatch}") from None


def _read(document: Any) -> Record:
    if type(document) is not dict:
        raise JsonMismatch("a record expected")
    name = document.pop("type", None)
    if type(name) is not str or name not in _CODECS:
        raise JsonMismatch(f"a record of type {str(name)[:40]!r} is not known")
    try:
        record: Record = _CODECS[name].read(document)
        check(record)
    except InvalidRecord as error:
        raise JsonMismatch(str(error)).inside(name) from None
    except JsonMismatch as mismatch:
        raise mismatch.inside(name) from None
    return record
