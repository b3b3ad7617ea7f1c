"""EndTxn (26) v0-5. From v5 on the answer carries the producer's next epoch (KIP-890). Markers of
partitions that this broker leads are written right after the answer, unless there are many: before
another request is read. Gaps: none.
"""

from typing import cast

from ottla.broker.requests.authorization import transactional_id_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.fenced_producers import in_older_words
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.batch import MarkerKind
from ottla.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.producer_epoch import ProducerIdAndEpoch, is_exhausted

FENCED_SINCE = 2
EPOCH_BUMPED_SINCE = 5


async def handle(request: EndTxnRequest, call: Call) -> EndTxnResponse:
    from ottla.coordinators.txn.machine import EndRequest

    transactional_id = request.transactional_id
    call.require(transactional_id_resource(transactional_id))
    if not transactional_id:
        raise PeerError(ErrorCode.INVALID_REQUEST, "an empty transactional id")
    asked = EndRequest(
        transactional_id,
        ProducerIdAndEpoch(request.producer_id, request.producer_epoch),
        MarkerKind.COMMIT if request.committed else MarkerKind.ABORT,
        # The version of the request says which transaction version its client speaks.
        2 if call.version >= EPOCH_BUMPED_SINCE else 0,
    )
    if call.version >= EPOCH_BUMPED_SINCE and is_exhausted(request.producer_epoch):
        await _spare_producer_id(call)
    try:
        shard = call.services.coordinators.transactions.of(transactional_id)
        ended = await shard.ask(lambda ticket, now_ms: shard.machine.end(asked, ticket, now_ms))
    except PeerError as error:
        raise in_older_words(error, call.version, FENCED_SINCE) from None
    producer = cast(ProducerIdAndEpoch, ended)
    return EndTxnResponse(
        error_code=ErrorCode.NONE,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
    )


async def _spare_producer_id(call: Call) -> None:
    """The next producer needs a new id, which the coordinator cannot wait for."""
    try:
        await call.services.metadata.producer_ids.spare()
    except PeerError as error:
        # Clients retry after this code, and fail after others.
        raise PeerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, str(error)) from error
