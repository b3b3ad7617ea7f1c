"""One codec for all messages: each (message, version) is compiled to two functions on first use.

request, end = decode(HeartbeatRequest, 4, frame, position)
parts = encode(HeartbeatResponse(error_code=0), 4)
"""

from typing import Any, TypeVar

from ottla.protocol.codec.declare import (
    always_legacy,
    header,
    nullable_since,
    request,
    response,
    schema_of,
    since,
    struct,
    tagged,
    until,
)
from ottla.protocol.codec.decoder import ELEMENTS_UNLIMITED, Decoder
from ottla.protocol.codec.encoder import Encoder
from ottla.protocol.codec.layout import layout_of
from ottla.protocol.primitives import Buffer, Part

__all__ = [
    "always_legacy",
    "decode",
    "encode",
    "encode_bytes",
    "header",
    "nullable_since",
    "request",
    "response",
    "schema_of",
    "since",
    "struct",
    "tagged",
    "until",
]

M = TypeVar("M")

# Bounded by the number of messages and versions.
_DECODERS: dict[tuple[type[Any], int], Decoder] = {}
_ENCODERS: dict[tuple[type[Any], int], Encoder] = {}


def decode(
    message: type[M],
    version: int,
    buffer: Buffer,
    position: int = 0,
    *,
    elements_max: int = ELEMENTS_UNLIMITED,
) -> tuple[M, int]:
    """The message at `position`, and its end; bytes after it are ignored.

    DecodeError names the field and the position. All arrays and tag sections together may have at
    most `elements_max` elements. Records are views of `buffer`; everything else is copied.
    """
    decoder = _DECODERS.get((message, version))
    if decoder is None:
        decoder = _DECODERS[message, version] = Decoder(layout_of(message, version), version)
    return decoder(buffer, position, elements_max)


def encode(message: object, version: int) -> list[Part]:
    """The message's bytes: one part, or several if it has records, which are not copied.

    EncodeError names the field that cannot be encoded in this version.
    """
    encoder = _ENCODERS.get((type(message), version))
    if encoder is None:
        layout = layout_of(type(message), version)
        encoder = _ENCODERS[type(message), version] = Encoder(layout, version)
    return encoder(message)


def encode_bytes(message: object, version: int) -> bytes:
    """The message's bytes in one piece. TypeError if its records are in a file."""
    return b"".join(encode(message, version))  # type: ignore[arg-type]
