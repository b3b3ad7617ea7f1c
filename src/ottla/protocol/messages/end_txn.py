"""EndTxn (26) v0-5. v5 returns the next producer epoch (KIP-890). Gaps: none."""

from ottla.protocol.codec import request, response, since
from ottla.protocol.primitives import i16, i32, i64


@request(key=26, versions=(0, 5), flexible=3)
class EndTxnRequest:
    transactional_id: str
    producer_id: i64
    producer_epoch: i16
    committed: bool


@response(to=EndTxnRequest)
class EndTxnResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    producer_id: i64 = since(5, default=-1, ignorable=True)
    producer_epoch: i16 = since(5, default=-1, ignorable=True)
