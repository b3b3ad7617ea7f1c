"""What fields are made of on the wire, and what is raised when bytes or values do not fit.

The annotations (`i32`, `Uuid`, `Records`, ...) are read by `ottla.protocol.codec`, which compiles
the messages declared with them. All integers are big-endian.
"""

import base64
from collections.abc import Sized
from enum import Enum
from typing import Annotated, NamedTuple, Self

from ottla.errors import ErrorCode, PeerError

Buffer = bytes | bytearray | memoryview
# What an encoded message consists of: bytes, or a stand-in for bytes that lie elsewhere (a slice of
# a file) and whose length alone matters here.
Part = Buffer | Sized

VARINT_BYTES_MAX = 5
UINT32_MAX = 0xFFFF_FFFF
# Kafka bounds a string by an int16 in every version, also where its length is a varint.
STRING_BYTES_MAX = 0x7FFF

# Stand for what is not there, or not known.
NO_TIMESTAMP = -1
NO_OFFSET = -1
NO_LEADER_EPOCH = -1
NO_BROKER = -1
# What a client that is no broker says as its replica id.
CONSUMER_REPLICA_ID = -1

OFFSET_MAX = 2**63 - 1

# Stands for authorized operations that the client did not ask for.
OPERATIONS_NOT_ASKED_FOR = -0x8000_0000


class Fixed(NamedTuple):
    """A value of constant size: its code in the struct module, and its bytes."""

    code: str
    size: int


class Span(Enum):
    """A length, and that many bytes."""

    TEXT = "UTF-8"
    BLOB = "bytes that are copied"
    RECORDS = "record batches: never looked into and never copied, in either direction"


i8 = Annotated[int, Fixed("b", 1)]
i16 = Annotated[int, Fixed("h", 2)]
i32 = Annotated[int, Fixed("i", 4)]
i64 = Annotated[int, Fixed("q", 8)]
u16 = Annotated[int, Fixed("H", 2)]
u32 = Annotated[int, Fixed("I", 4)]
f64 = Annotated[float, Fixed("d", 8)]

# Batches in memory. Decoded they are a memoryview of the frame.
Records = Annotated[Buffer, Span.RECORDS]
# Batches that may as well lie in a file. Decoded they too are a memoryview of the frame.
StoredRecords = Annotated[Part, Span.RECORDS]


class Uuid(bytes):
    """Sixteen bytes that print as Kafka writes them: url-safe base64 without padding."""

    __slots__ = ()

    def __new__(cls, raw: bytes) -> Self:
        if len(raw) != 16:
            raise ValueError(f"a uuid of {len(raw)} bytes")
        return super().__new__(cls, raw)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The id that prints as `text`. ValueError if there is none."""
        return cls(base64.b64decode(text + "==", altchars=b"-_", validate=True))

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(self)[:22].decode()

    def __repr__(self) -> str:
        return f"Uuid({self})"


ZERO_UUID = Uuid(bytes(16))


class DecodeError(PeerError):
    """Bytes that are not the message they claim to be: which field, where, and why."""

    def __init__(self, message: str, field: str, position: int, reason: str) -> None:
        super().__init__(
            ErrorCode.INVALID_REQUEST, f"{message}, field {field}, byte {position}: {reason}"
        )
        self.field = field
        self.position = position
        self.reason = reason


class EncodeError(Exception):
    """A message that has no bytes in the version asked for. Our own fault, or our caller's."""

    def __init__(self, message: str, field: str, reason: str) -> None:
        super().__init__(f"{message}, field {field}: {reason}")
        self.field = field
        self.reason = reason


class Malformed(ValueError):
    """Raised while decoding, where only the reason is known; `DecodeError` says the rest."""

    def __init__(self, reason: str, position: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


def encode_unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, lowest first, the high bit on all but the last."""
    if not 0 <= value <= UINT32_MAX:
        raise ValueError(f"{value} is no unsigned 32-bit number")
    encoded = bytearray()
    while value > 127:
        encoded.append(value & 127 | 128)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_unsigned_varint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    """The number at `position`, and where it ends. IndexError if the buffer ends first."""
    value = 0
    for index in range(VARINT_BYTES_MAX):
        byte = buffer[position + index]
        value |= (byte & 127) << 7 * index
        if byte < 128:
            if value > UINT32_MAX:
                break
            return value, position + index + 1
    raise Malformed("a varint of more than 32 bits", position)


# Most varints are lengths below 127: their bytes, ready made.
SHORT_VARINTS = tuple(encode_unsigned_varint(value) for value in range(128))
