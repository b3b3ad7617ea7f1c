"""SaslAuthenticate (36) v0-2. v1 adds the session's lifetime (KIP-368). Gaps: none."""

from ottla.protocol.codec import request, response, since
from ottla.protocol.primitives import i16, i64


@request(key=36, versions=(0, 2), flexible=2)
class SaslAuthenticateRequest:
    auth_bytes: bytes


@response(to=SaslAuthenticateRequest)
class SaslAuthenticateResponse:
    error_code: i16
    error_message: str | None = None
    auth_bytes: bytes
    session_lifetime_ms: i64 = since(1, default=0, ignorable=True)
