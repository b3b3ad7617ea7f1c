"""The layout of a record in the log: the key is a type and a message, the value a version and one.

The type determines the messages of key and value. Keys have one version, which is not flexible.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ottla.errors import StorageError
from ottla.protocol import codec
from ottla.protocol.primitives import DecodeError

_NUMBER = struct.Struct(">h")
_KEY_VERSION = 0


class DamagedRecord(StorageError):
    """A key or a value that does not match its type or version."""


class StoredRecord(NamedTuple):
    """A record as the messages of its key and value. A tombstone has no value."""

    type: int
    key: object
    value: object | None = None
    version: int = 0


def message_in(message: type[Any], version: int, raw: bytes) -> Any:
    """The message after the leading number. DamagedRecord if it does not fill the bytes exactly."""
    try:
        found, end = codec.decode(message, version, raw, _NUMBER.size)
    except DecodeError as error:
        raise DamagedRecord(str(error)) from None
    if end != len(raw):
        raise DamagedRecord(f"{message.__name__} ends at byte {end} of {len(raw)}")
    return found


class RecordType(NamedTuple):
    """The messages of one type of record, and the functions that turn them into the record."""

    key: type[Any]
    value: type[Any]
    saved: Callable[[Any, Any, int], Any]
    tombstone: Callable[[Any], Any]
    parse: Callable[[type[Any], int, bytes], Any] = message_in


def to_bytes(stored: StoredRecord) -> tuple[bytes, bytes | None]:
    """The key and the value as the log holds them."""
    key = _NUMBER.pack(stored.type) + codec.encode_bytes(stored.key, _KEY_VERSION)
    if stored.value is None:
        return key, None
    # A value that the codec cannot express comes as bytes.
    value = stored.value
    raw = value if isinstance(value, bytes) else codec.encode_bytes(value, stored.version)
    return key, _NUMBER.pack(stored.version) + raw


def from_bytes(record_types: Mapping[int, RecordType], key: bytes, value: bytes | None) -> Any:
    """The record, or None if its type is not in `record_types`. DamagedRecord if it is damaged."""
    number = _number(key, "a key")
    record_type = record_types.get(number)
    if record_type is None:
        return None
    read_key = message_in(record_type.key, _KEY_VERSION, key)
    if value is None:
        return record_type.tombstone(read_key)
    version = _number(value, f"a value of type {number}")
    first, last = codec.schema_of(record_type.value).versions
    if not first <= version <= last:
        raise DamagedRecord(
            f"a value of type {number} has version {version}, but {last} is the last known"
        )
    return record_type.saved(
        read_key, record_type.parse(record_type.value, version, value), version
    )


def _number(raw: bytes, what: str) -> int:
    if len(raw) < _NUMBER.size:
        raise DamagedRecord(f"{what} of {len(raw)} bytes")
    number: int = _NUMBER.unpack_from(raw)[0]
    return number
