"""InitProducerId (22) v0-5. Producer ids come from blocks of 1000 that are reserved in the metadata
log. Gaps: none.
"""

from collections.abc import Awaitable
from typing import cast

from ottla.broker.requests.authorization import CLUSTER, transactional_id_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.fenced_producers import in_older_words
from ottla.broker.requests.producer_ids import ProducerIdBlocks
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.protocol.producer_epoch import (
    NO_PRODUCER,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerIdAndEpoch,
)

FENCED_SINCE = 4


def handle(
    request: InitProducerIdRequest, call: Call
) -> InitProducerIdResponse | Awaitable[InitProducerIdResponse]:
    if request.transactional_id is not None:
        return _init_transactional(request, request.transactional_id, call)
    call.require(CLUSTER)
    # An idempotent producer that asks again gets a new id (KIP-360).
    producer_id = call.services.metadata.producer_ids.take()
    if producer_id is None:
        return _later(call.services.metadata.producer_ids)
    return _response(ProducerIdAndEpoch(producer_id, 0))


async def _later(producer_ids: ProducerIdBlocks) -> InitProducerIdResponse:
    try:
        return _response(ProducerIdAndEpoch(await producer_ids.next(), 0))
    except PeerError as error:
        raise _retriable(error) from error


def _retriable(error: PeerError) -> PeerError:
    """No block can be reserved now. Clients retry after this code, and fail after others."""
    return PeerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error))


async def _init_transactional(
    request: InitProducerIdRequest, transactional_id: str, call: Call
) -> InitProducerIdResponse:
    # Imported with the first transactional id, like the coordinator's state machine.
    from ottla.coordinators.txn.machine import InitRequest

    call.require(transactional_id_resource(transactional_id))
    if not transactional_id:
        raise PeerError(ErrorCode.INVALID_REQUEST, "an empty transactional id")
    asked = InitRequest(transactional_id, request.transaction_timeout_ms, _expected(request))
    producer_ids = call.services.metadata.producer_ids
    if producer_ids.is_used_up:
        try:
            await producer_ids.spare()
        except PeerError as error:
            raise _retriable(error) from error
    try:
        shard = call.services.coordinators.transactions.of(transactional_id)
        producer = await shard.ask(lambda ticket, now_ms: shard.machine.init(asked, ticket, now_ms))
    except PeerError as error:
        raise in_older_words(error, call.version, FENCED_SINCE) from None
    return _response(cast(ProducerIdAndEpoch, producer))


def _expected(request: InitProducerIdRequest) -> ProducerIdAndEpoch | None:
    """The producer that renews its epoch (KIP-360). PeerError if it is named by half."""
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    if producer == NO_PRODUCER:
        return None
    if producer.producer_id == NO_PRODUCER_ID or producer.producer_epoch == NO_PRODUCER_EPOCH:
        raise PeerError(ErrorCode.INVALID_REQUEST, "a producer id without an epoch, or the reverse")
    return producer


def _response(producer: ProducerIdAndEpoch) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=ErrorCode.NONE,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )
