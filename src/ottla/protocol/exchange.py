"""Requests and responses as frames, for both ends of a connection."""

import struct
from copy import copy
from functools import cache, lru_cache
from typing import Any, NamedTuple

from ottla.errors import ErrorCode, PeerError
from ottla.protocol.codec import decode, encode, encode_bytes, schema_of
from ottla.protocol.codec.decoder import ELEMENTS_UNLIMITED
from ottla.protocol.codec.layout import layout_of
from ottla.protocol.framing import frame
from ottla.protocol.headers import (
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from ottla.protocol.messages import APIS, Api
from ottla.protocol.primitives import Buffer, Part

_KEY_AND_VERSION = struct.Struct(">hh")
_CORRELATION_ID = struct.Struct(">i")
_NO_TAGS = b"\0"
# A flexible response header: the correlation id, and no tags.
_PLAIN_HEADER_BYTES = _CORRELATION_ID.size + len(_NO_TAGS)
THROTTLE_TIME_MS = "throttle_time_ms"
_THROTTLE_TIME_MS = struct.Struct(">i")


class UnsupportedVersion(PeerError):
    """An unknown API key or version. `header` can still be used for an answer."""

    def __init__(self, header: RequestHeader) -> None:
        key, version = header.request_api_key, header.request_api_version
        super().__init__(ErrorCode.UNSUPPORTED_VERSION, f"version {version} of API key {key}")
        self.header = header


class ReceivedRequest(NamedTuple):
    """A decoded request."""

    header: RequestHeader
    api: Api
    message: Any


class Encoded(NamedTuple):
    """A response that is already encoded, in the version of its request."""

    content: bytes


def decode_request(received: Buffer, elements_max: int = ELEMENTS_UNLIMITED) -> ReceivedRequest:
    """Decodes a request frame. Bytes after the message are ignored: some clients send them.

    UnsupportedVersion if its key or version is not in the table of APIs, DecodeError if it is
    malformed or has more than `elements_max` elements.
    """
    api = _api(received)
    if api is None:
        # All header versions begin with the same fields, so version 1 can read them.
        raise UnsupportedVersion(decode(RequestHeader, 1, received)[0])
    version: int = _KEY_AND_VERSION.unpack_from(received)[1]
    header, position = decode(
        RequestHeader, request_header_version(api, version), received, elements_max=elements_max
    )
    message, _ = decode(api.request, version, received, position, elements_max=elements_max)
    return ReceivedRequest(header, api, message)


def encode_response(
    correlation_id: int, api: Api, version: int, response: object, throttle_time_ms: int = 0
) -> list[Part]:
    """The parts of a response frame, in the version of its request.

    `throttle_time_ms` is set if the version has that field.
    """
    if throttle_time_ms:
        response = _throttled(response, api, version, throttle_time_ms)
    # Same bytes as the declared ResponseHeader, but faster: every response has a header.
    header = _CORRELATION_ID.pack(correlation_id)
    if response_header_version(api, version):
        header += _NO_TAGS
    if isinstance(response, Encoded):
        # A view: it is not copied, and not counted as memory of each client.
        return frame(header, [b"", memoryview(response.content)])
    return frame(header, encode(response, version))


def _throttled(response: Any, api: Api, version: int, throttle_time_ms: int) -> object:
    """The same response with this throttle time. What is given may be shared, and stays."""
    if isinstance(response, Encoded):
        if not _begins_with_throttle_time(api, version):
            return response
        return Encoded(
            _THROTTLE_TIME_MS.pack(throttle_time_ms) + response.content[_THROTTLE_TIME_MS.size :]
        )
    if THROTTLE_TIME_MS in schema_of(type(response)).fields:
        response = copy(response)
        response.throttle_time_ms = throttle_time_ms
    return response


@cache
def _begins_with_throttle_time(api: Api, version: int) -> bool:
    """Whether an encoded response can be told another throttle time. TypeError if that is behind
    fields whose size is not known."""
    names = [slot.name for slot in layout_of(api.response, version).plain]
    if THROTTLE_TIME_MS in names[1:]:
        raise TypeError(f"a response to {api.name} does not begin with its throttle time")
    return names[:1] == [THROTTLE_TIME_MS]


def encode_request(
    correlation_id: int, api: Api, version: int, request: object, client_id: str | None = None
) -> list[Part]:
    """The parts of a request frame."""
    header_version = request_header_version(api, version)
    begin, end = _request_header(api.key, version, header_version, client_id)
    header = b"".join((begin, _CORRELATION_ID.pack(correlation_id), end))
    return frame(header, encode(request, version))


# A process has few client ids.
@lru_cache(maxsize=1024)
def _request_header(
    api_key: int, version: int, header_version: int, client_id: str | None
) -> tuple[bytes, bytes]:
    """The bytes of a request header before and behind the correlation id."""
    header = RequestHeader(
        request_api_key=api_key,
        request_api_version=version,
        correlation_id=0,
        client_id=client_id,
    )
    encoded = encode_bytes(header, header_version)
    position = _KEY_AND_VERSION.size
    return encoded[:position], encoded[position + _CORRELATION_ID.size :]


def decode_correlation_id(received: Buffer) -> int:
    """The correlation id of a response, whose API and version are not known yet."""
    if len(received) < _CORRELATION_ID.size:
        return decode(ResponseHeader, 0, received)[0].correlation_id  # says what is missing
    correlation_id: int = _CORRELATION_ID.unpack_from(received)[0]
    return correlation_id


def decode_response(received: Buffer, api: Api, version: int) -> Any:
    """Decodes the response to a request of this API and version."""
    header_version = response_header_version(api, version)
    if header_version and received[_CORRELATION_ID.size : _PLAIN_HEADER_BYTES] == _NO_TAGS:
        # Nearly always: a header without tags.
        position = _PLAIN_HEADER_BYTES
    else:
        _, position = decode(ResponseHeader, header_version, received)
    return decode(api.response, version, received, position)[0]


def _api(received: Buffer) -> Api | None:
    """The API of a request, or None if its key or version is not supported."""
    if len(received) < _KEY_AND_VERSION.size:
        return None
    key, version = _KEY_AND_VERSION.unpack_from(received)
    api = APIS.get(key)
    return api if api is not None and api.has(version) else None
