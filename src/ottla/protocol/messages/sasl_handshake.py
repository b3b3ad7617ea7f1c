"""SaslHandshake (17) v0-1. v1 moves the tokens that follow into SaslAuthenticate (KIP-152). Gaps:
none.
"""

from ottla.protocol.codec import request, response
from ottla.protocol.primitives import i16


@request(key=17, versions=(0, 1), flexible=None)
class SaslHandshakeRequest:
    mechanism: str


@response(to=SaslHandshakeRequest)
class SaslHandshakeResponse:
    error_code: i16
    mechanisms: tuple[str, ...]
