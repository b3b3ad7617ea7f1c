"""How a record stands in the log: a type and a key, then a version and a value.

The type of a key says what both are. Keys have one version, and none is flexible; a value names its
own.
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
    """A key or a value that is not what its type or version says."""


class Stored(NamedTuple):
    """A record as the messages of its key and value. Without a value it is a tombstone."""

    type: int
    key: object
    value: object | None = None
    version: int = 0


def message_in(message: type[Any], version: int, raw: bytes) -> Any:
    """What follows the number, which must be all there is. Else DamagedRecord."""
    try:
        found, end = codec.decode(message, version, raw, _NUMBER.size)
    except DecodeError as error:
        raise DamagedRecord(str(error)) from None
    if end != len(raw):
        raise DamagedRecord(f"{message.__name__} ends at byte {end} of {len(raw)}")
    return found


class Reading(NamedTuple):
    """What the records of one type are made of, and what is made of them."""

    key: type[Any]
    value: type[Any]
    saved: Callable[[Any, Any, int], Any]
    forgotten: Callable[[Any], Any]
    parse: Callable[[type[Any], int, bytes], Any] = message_in


def to_bytes(stored: Stored) -> tuple[bytes, bytes | None]:
    """The key and the value as the log holds them."""
    key = _NUMBER.pack(stored.type) + codec.encode_bytes(stored.key, _KEY_VERSION)
    if stored.value is None:
        return key, None
    # Bytes are a value that the codec cannot say by itself.
    value = stored.value
    raw = value if isinstance(value, bytes) else codec.encode_bytes(value, stored.version)
    return key, _NUMBER.pack(stored.version) + raw


def from_bytes(readings: Mapping[int, Reading], key: bytes, value: bytes | None) -> Any:
    """The record, or None if its type is not among `readings`. Else DamagedRecord."""
    record_type = _number(key, "a key")
    reading = readings.get(record_type)
    if reading is None:
        return None
    read_key = message_in(reading.key, _KEY_VERSION, key)
    if value is None:
        return reading.forgotten(read_key)
    version = _number(value, f"a value of type {record_type}")
    first, last = codec.schema_of(reading.value).versions
    if not first <= version <= last:
        raise DamagedRecord(
            f"a value of type {record_type} has version {version}, but {last} is the last known"
        )
    return reading.saved(read_key, reading.parse(reading.value, version, value), version)


def _number(raw: bytes, what: str) -> int:
    if len(raw) < _NUMBER.size:
        raise DamagedRecord(f"{what} of {len(raw)} bytes")
    number: int = _NUMBER.unpack_from(raw)[0]
    return number
