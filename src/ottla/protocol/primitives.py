"""The primitive types of fields on the wire, and the errors of decoding and encoding.

The annotations (`i32`, `Uuid`, `Records`, ...) are read by `ottla.protocol.codec`, which compiles
the messages declared with them. All integers are big-endian.
"""

import base64
from collections.abc import Sized
from enum import Enum
from functools import partial
from typing import Annotated, NamedTuple, Self

from ottla.errors import ErrorCode, PeerError

Buffer = bytes | bytearray | memoryview
# A part of an encoded message: bytes, or a stand-in for bytes elsewhere (a slice of a file), of
# which only the length matters here.
Part = Buffer | Sized

VARINT_BYTES_MAX = 5
UINT32_MAX = 0xFFFF_FFFF
# Kafka limits strings to an int16 length in every version, also if the length is a varint.
STRING_BYTES_MAX = 0x7FFF

# Kafka's values for "none" or "unknown".
NO_TIMESTAMP = -1
NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_BROKER = -1
# The replica id that every client sends that is not a broker.
CONSUMER_REPLICA_ID = -1

OFFSET_MAX = 2**63 - 1

# Kafka's value for authorized operations that the client did not request.
OPERATIONS_NOT_ASKED_FOR = -0x8000_0000


class Fixed(NamedTuple):
    """A value of fixed size: its code in the struct module, and its size in bytes."""

    code: str
    size: int


class LengthPrefixed(Enum):
    """A length, followed by that many bytes."""

    TEXT = "UTF-8"
    BLOB = "bytes that are copied"
    RECORDS = "record batches: never parsed and never copied, in either direction"


i8 = Annotated[int, Fixed("b", 1)]
i16 = Annotated[int, Fixed("h", 2)]
i32 = Annotated[int, Fixed("i", 4)]
i64 = Annotated[int, Fixed("q", 8)]
u16 = Annotated[int, Fixed("H", 2)]
u32 = Annotated[int, Fixed("I", 4)]
f64 = Annotated[float, Fixed("d", 8)]

# Batches in memory. Decoding gives a memoryview of the frame.
Records = Annotated[Buffer, LengthPrefixed.RECORDS]
# Batches in memory or in a file. Decoding gives a memoryview of the frame.
StoredRecords = Annotated[Part, LengthPrefixed.RECORDS]


class Uuid(bytes):
    """Sixteen bytes, printed as Kafka prints them: url-safe base64 without padding."""

    __slots__ = ()

    def __new__(cls, raw: bytes) -> Self:
        if len(raw) != 16:
            raise ValueError(f"a uuid of {len(raw)} bytes")
        return super().__new__(cls, raw)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The id that is printed as `text`. ValueError if `text` is not a uuid."""
        return cls(base64.b64decode(text + "==", altchars=b"-_", validate=True))

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self)[:22].decode()

    def __repr__(self) -> str:
        return f"Uuid({self})"


ZERO_UUID = Uuid(bytes(16))
# Sixteen bytes as a uuid, unchecked, without an interpreter frame.
make_uuid = partial(bytes.__new__, Uuid)


class DecodeError(PeerError):
    """Bytes that cannot be decoded: names the field, the position and the reason."""

    def __init__(self, message: str, field: str, position: int, reason: str) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST, f"{message}, field {field}, byte {position}: {reason}"
        )
        self.field = field
        self.position = position
        self.reason = reason


class EncodeError(Exception):
    """A message that cannot be encoded in the requested version: a bug of ours or our caller."""

    def __init__(self, message: str, field: str, reason: str) -> None:
        super().__init__(f"{message}, field {field}: {reason}")
        self.field = field
        self.reason = reason


class Malformed(ValueError):
    """Raised by decoding helpers that know only the reason; `DecodeError` adds the rest."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


def encode_unsigned_varint(value: int) -> bytes:
    """Seven bits per byte, lowest first; the high bit is set in all but the last byte."""
    if not 0 <= value <= UINT32_MAX:
        raise ValueError(f"{value} is not an unsigned 32-bit number")
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_unsigned_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number at `position`, and its end. IndexError if the buffer ends first."""
    value = 0
    for index in range(VARINT_BYTES_MAX):
        byte = buffer[position + index]
        value |= (byte & 127) << 7 * index
        if byte < 128:
            if value > UINT32_MAX:
                break
            return value, position + index + 1
    raise Malformed("a varint of more than 32 bits", position)


# Precomputed: most varints are lengths below 127.
SHORT_VARINTS = tuple(encode_unsigned_varint(value) for value in range(128))
