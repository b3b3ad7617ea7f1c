"""InitProducerId (22) v0-5. Producer ids come from blocks of 1000 that are reserved in the metadata
log. Gaps: there are no transactions, a request with a transactional id is refused with
UNSUPPORTED_VERSION.
"""

from collections.abc import Awaitable

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.broker.requests.producer_ids import ProducerIdBlocks
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse


def handle(
    request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if request.transactional_id == "":
        raise PeerError(ErrorCode.INVALID_REQUEST, "an empty transactional id")
    if request.transactional_id is not None:
        raise PeerError(ErrorCode.UNSUPPORTED_VERSION, "there are no transactions here")
    call.require(CLUSTER)
    # An idempotent producer that asks again gets a new id (KIP-360).
    producer_id = call.services.metadata.producer_ids.take()
    if producer_id is None:
        return _later(call.services.metadata.producer_ids)
    return _response(producer_id)


async def _later(producer_ids: ProducerIdBlocks) -> InitProducerIdResponse:
    try:
        return _response(await producer_ids.next())
    except PeerError as error:
        # No block can be reserved now. Clients retry after this code, and fail after others.
        raise PeerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error


def _response(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE, producer_id=producer_id, producer_epoch=0
    )
