"""ListTransactions (66) v0-2. The transactional ids that this broker coordinates. Gaps: none."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ottla.broker.requests.authorization import transactional_id_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group.consumer.regex import match_topics
from ottla.coordinators.txn.states import STATES_BY_NAME
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    Transaction,
)

if TYPE_CHECKING:
    from ottla.coordinators.txn.coordinator import TransactionShard
    from ottla.coordinators.txn.transaction import Transaction as State


async def handle(request: ListTransactionsRequest, call: Call) -> ListTransactionsResponse:
    """Without filters all are listed. Unknown states are returned; alone they match nothing."""
    states = {STATES_BY_NAME[name] for name in request.state_filters if name in STATES_BY_NAME}
    unknown = tuple(name for name in request.state_filters if name not in STATES_BY_NAME)
    if request.state_filters and not states:
        return _response((), unknown)
    producer_ids = frozenset(request.producer_id_filters)
    found: list[State] = []
    for shard in call.services.coordinators.transactions:
        found += [
            each
            for each in await _all(shard)
            if (not states or each.state in states)
            and (not producer_ids or each.producer_id in producer_ids)
        ]
    if request.duration_filter >= 0:
        began_ms = call.services.now_ms - request.duration_filter
        found = [each for each in found if each.start_ms <= began_ms]
    if request.transactional_id_pattern:
        names = [each.transactional_id for each in found]
        matched = frozenset(match_topics(request.transactional_id_pattern, names))
        found = [each for each in found if each.transactional_id in matched]
    return _response(
        [each for each in found if call.may(transactional_id_resource(each.transactional_id))],
        unknown,
    )


async def _all(shard: "TransactionShard") -> "list[State]":
    try:
        return await shard.read(lambda _: list(shard.machine.transactions.values()))
    except PeerError as error:
        if error.code is ErrorCode.NOT_COORDINATOR:
            return []  # another broker lists them now
        raise


def _response(found: "Iterable[State]", unknown: tuple[str, ...]) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        error_code=ErrorCode.NONE,
        unknown_state_filters=unknown,
        transaction_states=tuple(
            Transaction(
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state.kafka_name,
            )
            for each in found
        ),
    )
