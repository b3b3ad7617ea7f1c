"""Request and response headers, and the header version of each API version.

There are two exceptions: the client id keeps its legacy length in flexible headers too, and the
response to ApiVersions always has header version 0, since a client reads it before it knows the
versions of the broker.
"""

from ottla.protocol.codec import always_legacy, header
from ottla.protocol.messages import Api
from ottla.protocol.primitives import i16, i32

API_VERSIONS_KEY = 18


@header(versions=(1, 2), flexible=2)
class RequestHeader:
    request_api_key: i16
    request_api_version: i16
    correlation_id: i32
    client_id: str | None = always_legacy()


@header(versions=(0, 1), flexible=1)
class ResponseHeader:
    correlation_id: i32


def request_header_version(api: Api, version: int) -> int:
    return 2 if api.is_flexible(version) else 1


def response_header_version(api: Api, version: int) -> int:
    return 1 if api.is_flexible(version) and api.key != API_VERSIONS_KEY else 0
