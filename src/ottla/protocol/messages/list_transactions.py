"""ListTransactions (66) v0-2. v1 adds a duration (KIP-994), v2 a pattern for transactional ids
(KIP-1152). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct
from ottla.protocol.primitives import i16, i32, i64


@request(key=66, versions=(0, 2), flexible=0)
class ListTransactionsRequest:
    state_filters: tuple[str, ...]
    producer_id_filters: tuple[i64, ...]
    duration_filter: i64 = since(1, default=-1)
    transactional_id_pattern: str | None = since(2, default=None)


@struct
class Transaction:
    transactional_id: str
    producer_id: i64
    transaction_state: str


@response(to=ListTransactionsRequest)
class ListTransactionsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    unknown_state_filters: tuple[str, ...]
    transaction_states: tuple[Transaction, ...]
