"""AllocateProducerIds (67) v0-0. A broker asks the controller for producer ids (KIP-730). Only
between brokers. Gaps: none.
"""

from ottla.protocol.codec import request, response
from ottla.protocol.primitives import i16, i32, i64


@request(key=67, versions=(0, 0), flexible=0)
class AllocateProducerIdsRequest:
    broker_id: i32
    broker_epoch: i64 = -1


@response(to=AllocateProducerIdsRequest)
class AllocateProducerIdsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    producer_id_start: i64
    producer_id_len: i32
