"""InitProducerId (22) v0-5. v3 adds the current producer id and epoch (KIP-360), v4 the fenced
error (KIP-588). Gaps: none.
"""

from ottla.protocol.codec import request, response, since
from ottla.protocol.primitives import i16, i32, i64


@request(key=22, versions=(0, 5), flexible=2)
class InitProducerIdRequest:
    transactional_id: str | None
    transaction_timeout_ms: i32
    producer_id: i64 = since(3, default=-1)
    producer_epoch: i16 = since(3, default=-1)


@response(to=InitProducerIdRequest)
class InitProducerIdResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    producer_id: i64 = -1
    producer_epoch: i16 = -1
