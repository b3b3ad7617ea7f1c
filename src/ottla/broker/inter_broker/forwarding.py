"""Forwards clients' requests to the controller, with their principals (KIP-590)."""

import ipaddress
from typing import Any

from ottla.broker.inter_broker.controller_channel import ControllerChannel
from ottla.broker.net.session import Session
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.principal_data import encode_principal

# The APIs that Kafka forwards too: those that change the metadata, and the list of reassignments,
# which must name what was asked for a moment ago. DescribeQuorum, which Kafka forwards, is answered
# from the image of any broker.
CREATE_TOPICS, DELETE_TOPICS, CREATE_ACLS, DELETE_ACLS = 19, 20, 30, 31
ALTER_CONFIGS, CREATE_PARTITIONS, ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS = 33, 37, 43, 44
ALTER_REASSIGNMENTS, LIST_REASSIGNMENTS, ALTER_QUOTAS, ALTER_SCRAM, UPDATE_FEATURES = (
    *(45, 46, 49),
    *(51, 57),
)
FORWARDED = frozenset(
    (
        *(CREATE_TOPICS, DELETE_TOPICS, CREATE_ACLS, DELETE_ACLS, ALTER_CONFIGS),
        *(CREATE_PARTITIONS, ELECT_LEADERS, INCREMENTAL_ALTER_CONFIGS, ALTER_REASSIGNMENTS),
        *(LIST_REASSIGNMENTS, ALTER_QUOTAS, ALTER_SCRAM, UPDATE_FEATURES),
    )
)
# The envelope itself, beside the request in it.
ENVELOPE_BYTES_MAX = 72 << 10

_NO_ADDRESS = bytes(4)


class Forwarding:
    """Puts requests into envelopes, and takes the answers out."""

    def __init__(self, channel: ControllerChannel, request_timeout_ms: int) -> None:
        self._channel = channel
        self._request_timeout_ms = request_timeout_ms

    def timeout_ms(self, request: Any) -> int:
        """The request's own timeout, if it has one."""
        own: int = getattr(request, "timeout_ms", 0)
        return own if own > 0 else self._request_timeout_ms

    async def forward(self, frame: bytes, session: Session | None, timeout_ms: int) -> bytes:
        """The frame of the response, for the correlation id of the request in `frame`.

        Without a session it is a request of this broker. ControllerIsHere, or PeerError if the
        controller has not answered in time or does not take envelopes of this broker.
        """
        envelope = EnvelopeRequest(
            request_data=frame,
            request_principal=encode_principal(*session.principal) if session else None,
            client_host_address=_packed(session.peer_host) if session else _NO_ADDRESS,
        )
        response: EnvelopeResponse = await self._channel.ask(
            envelope, timeout_ms=timeout_ms, held_bytes=len(frame)
        )
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            raise PeerError(
                ErrorCode.UNSUPPORTED_VERSION, "The controller does not know this version."
            )
        if response.error_code != ErrorCode.NONE or response.response_data is None:
            # As in Kafka: the client cannot help it.
            raise PeerError(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"The controller has refused the envelope with code {response.error_code}.",
            )
        return response.response_data


def _packed(host: str) -> bytes:
    """The bytes of a client's address; zeros if it has none, so that no rule for a host applies."""
    try:
        return ipaddress.ip_address(host).packed
    except ValueError:
        return _NO_ADDRESS


def unpacked(address: bytes) -> str:
    """The client's address as text. PeerError INVALID_REQUEST if it is none."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"a client's address of {len(address)} bytes"
        ) from None
