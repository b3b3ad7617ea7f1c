"""AllocateProducerIds (67) v0-0. The controller reserves a block of 1000 ids for a broker. A block
whose answer is lost is never given again. Only on the inter-broker listener. Gaps: none.
"""

from functools import partial

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode
from ottla.metadata.controller.producer_id_blocks import reserve_block_for
from ottla.metadata.values import Incarnation
from ottla.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


async def handle(request: AllocateProducerIdsRequest, call: Call) -> AllocateProducerIdsResponse:
    call.require(CLUSTER)
    requester = Incarnation(request.broker_id, request.broker_epoch)
    block = await call.services.controller.commit(partial(reserve_block_for, requester))
    return AllocateProducerIdsResponse(
        error_code=ErrorCode.NONE, producer_id_start=block.first_id, producer_id_len=block.size
    )
