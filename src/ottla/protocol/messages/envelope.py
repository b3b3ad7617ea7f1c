"""Envelope (58) v0-0. A client's request that a broker forwards to the controller (KIP-590). Only
between brokers. Gaps: none.
"""

from ottla.protocol.codec import request, response
from ottla.protocol.primitives import i16


@request(key=58, versions=(0, 0), flexible=0)
class EnvelopeRequest:
    # The client's header and request, as it sent them.
    request_data: bytes
    # See `protocol.principal_data`.
    request_principal: bytes | None
    # An IP address of 4 or 16 bytes.
    client_host_address: bytes


@response(to=EnvelopeRequest)
class EnvelopeResponse:
    # The header and response for the client; null with an error.
    response_data: bytes | None = None
    error_code: i16
