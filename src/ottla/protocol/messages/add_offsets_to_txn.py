"""AddOffsetsToTxn (25) v0-4. v3 is flexible, v4 adds abortable errors (KIP-890). Gaps: none."""

from ottla.protocol.codec import request, response
from ottla.protocol.primitives import i16, i32, i64


@request(key=25, versions=(0, 4), flexible=3)
class AddOffsetsToTxnRequest:
    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    group_id: str


@response(to=AddOffsetsToTxnRequest)
class AddOffsetsToTxnResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
