"""Envelope (58) v0-0. Handles a client's request that another broker forwards, with the client's
principal. Only on the inter-broker listener. Gaps: none.
"""

from ottla.broker.inter_broker.forwarding import unpacked
from ottla.broker.net.session import Principal, Session
from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.publisher import NotController
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.principal_data import decode_principal

# What a broker that forwards can make use of. All other errors are its fault.
_PASSED_ON = frozenset((ErrorCode.NOT_CONTROLLER, ErrorCode.UNSUPPORTED_VERSION))


async def handle(request: EnvelopeRequest, call: Call) -> EnvelopeResponse:
    """The response to the request in the envelope, or an error if that was not handled."""
    services = call.services
    call.require(CLUSTER)
    if services.inter_broker is None or services.handle_embedded is None:
        raise PeerError(ErrorCode.INVALID_REQUEST, "There are no brokers that forward requests.")
    if not services.inter_broker.is_controller():
        raise NotController
    try:
        session = _client_session(request, call.session)
        response = await services.handle_embedded(request.request_data, session)
    except PeerError as error:
        if error.code in _PASSED_ON:
            raise
        raise PeerError(ErrorCode.INVALID_REQUEST, str(error)) from error
    return EnvelopeResponse(response_data=response, error_code=ErrorCode.NONE)


def _client_session(request: EnvelopeRequest, broker: Session) -> Session:
    """A session of the client, on the listener of the broker that forwards. PeerError."""
    session = Session(broker.handler, broker.listener, broker.security_protocol)
    session.is_forwarded = True
    session.peer_host = unpacked(request.client_host_address)
    session.local_address = broker.local_address
    if request.request_principal is None:
        # A request of the broker itself.
        session.principal = broker.principal
    else:
        principal = decode_principal(request.request_principal)
        session.principal = Principal(principal.type, principal.name)
    return session
