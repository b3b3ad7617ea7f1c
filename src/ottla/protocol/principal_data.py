"""A principal as brokers send it to the controller: Kafka's DefaultPrincipalData (KIP-590).

The version comes first, as two bytes, and the fields follow.
"""

import struct

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.codec import decode, encode_bytes, header
from ottla.protocol.primitives import Buffer

_VERSION = struct.Struct(">h")
_NEWEST = 0
# Tagged fields of later versions are skipped.
_TAGS_MAX = 100


@header(versions=(0, 0), flexible=0)
class PrincipalData:
    type: str
    name: str
    token_authenticated: bool


def encode_principal(kind: str, name: str) -> bytes:
    principal = PrincipalData(type=kind, name=name, token_authenticated=False)
    return _VERSION.pack(_NEWEST) + encode_bytes(principal, _NEWEST)


def decode_principal(content: Buffer) -> PrincipalData:
    """PeerError if the bytes are no principal of a known version, or more than one."""
    if len(content) < _VERSION.size:
        raise PeerError(ErrorCode.INVALID_REQUEST, "a principal without a version")
    (version,) = _VERSION.unpack_from(content)
    if version != _NEWEST:
        raise PeerError(ErrorCode.INVALID_REQUEST, f"a principal of version {version}")
    principal, end = decode(PrincipalData, version, content, _VERSION.size, elements_max=_TAGS_MAX)
    if end != len(content):
        raise PeerError(ErrorCode.INVALID_REQUEST, "bytes after the principal")
    return principal
