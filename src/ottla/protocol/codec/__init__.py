"""One codec for all messages: each (message, version) is compiled to two functions at first use.

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

# Grows to the messages and versions that this process speaks, and no further.
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
    """The message that begins at `position`, and where it ends; what follows is the caller's.

    DecodeError names the field and the position of what does not fit: all arrays and tag sections
    together have `elements_max` elements at most. Records are views of `buffer`; everything else
    is copied.
    """
    decoder = _DECODERS.get((message, version))
    if decoder is None:
        decoder = _DECODERS[message, version] = Decoder(layout_of(message, version), version)
    return decoder(buffer, position, elements_max)


def encode(message: object, version: int) -> list[Part]:
    """The message's bytes: one part, or more where records lie between, which are not copied.

    EncodeError names the field that this version cannot say.
    """
    encoder = _ENCODERS.get((type(message), version))
    if encoder is None:
        layout = layout_of(type(message), version)
        encoder = _ENCODERS[type(message), version] = Encoder(layout, version)
    return encoder(message)


def encode_bytes(message: object, version: int) -> bytes:
    """The message's bytes in one piece. TypeError if its records lie in a file."""
    return b"".join(encode(message, version))  # type: ignore[arg-type]
