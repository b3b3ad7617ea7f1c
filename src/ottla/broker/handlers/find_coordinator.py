"""FindCoordinator (10) v0-6. The first request for a coordinator waits until its topic is created.
Gaps: share groups have no coordinators.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from ottla.broker.requests.advertised_addresses import BrokerAddress, present_brokers
from ottla.broker.requests.authorization import (
    Resource,
    Unauthorized,
    group_resource,
    transactional_id_resource,
)
from ottla.broker.requests.call import Call
from ottla.broker.requests.coordinator_topics import (
    create_coordinator_topic,
    offsets_topic,
    transaction_topic,
)
from ottla.broker.requests.services import Services
from ottla.coordinators.runtime.shards import Shards
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.internal_topics import InternalTopic
from ottla.metadata.topic_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.settings.broker import BrokerSettings

BATCHED_SINCE = 4
# The message of a success before v4.
NO_ERROR = "NONE"


class _Kind(NamedTuple):
    """A type of coordinator: its topic, the resource of a key, and its shards."""

    topic_name: str
    topic: Callable[[BrokerSettings], InternalTopic]
    resource: Callable[[str], Resource]
    shards: Callable[[Services], Shards[Any, Any]]


_KINDS: dict[int, _Kind] = {
    CoordinatorType.GROUP: _Kind(
        CONSUMER_OFFSETS,
        offsets_topic,
        group_resource,
        lambda services: services.coordinators.groups,
    ),
    CoordinatorType.TRANSACTION: _Kind(
        TRANSACTION_STATE,
        transaction_topic,
        transactional_id_resource,
        lambda services: services.coordinators.transactions,
    ),
}


def handle(
    request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    kind = _KINDS.get(request.key_type)
    if kind is None:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"There are no coordinators of type {request.key_type} here."
        )
    exists = call.services.image.topic(kind.topic_name) is not None
    if not exists and any(call.may(kind.resource(key)) for key in _requested_keys(request, call)):
        return _create_and_respond(request, kind, call)
    return _respond(request, kind, call)


async def _create_and_respond(
    request: FindCoordinatorRequest, kind: _Kind, call: Call
) -> FindCoordinatorResponse:
    await create_coordinator_topic(call.services, kind.topic(call.services.settings))
    return _respond(request, kind, call)


def _respond(request: FindCoordinatorRequest, kind: _Kind, call: Call) -> FindCoordinatorResponse:
    brokers = present_brokers(call)
    found = tuple(_find(key, kind, brokers, call) for key in _requested_keys(request, call))
    if call.version >= BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    (coordinator,) = found
    return FindCoordinatorResponse(
        error_code=coordinator.error_code,
        error_message=coordinator.error_message or NO_ERROR,
        node_id=coordinator.node_id,
        host=coordinator.host,
        port=coordinator.port,
    )


def _requested_keys(request: FindCoordinatorRequest, call: Call) -> Sequence[str]:
    return request.coordinator_keys if call.version >= BATCHED_SINCE else (request.key,)


def _find(key: str, kind: _Kind, brokers: Sequence[BrokerAddress], call: Call) -> Coordinator:
    """The leader of the key's partition of the coordinator's topic."""
    resource = kind.resource(key)
    if not call.may(resource):
        return _refused(key, Unauthorized(resource.kind), call)
    try:
        index = kind.shards(call.services).partition_of(key)
        leader = call.services.image.leader_id(kind.topic_name, index)
        address = next(broker for broker in brokers if broker.broker_id == leader)
    except (PeerError, StopIteration):
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        message = "" if call.version >= BATCHED_SINCE else "The coordinator is not available."
        return _refused(key, PeerError(code, message), call)
    return Coordinator(
        key=key,
        node_id=address.broker_id,
        host=address.host,
        port=address.port,
        error_code=ErrorCode.NONE,
        error_message="",
    )


def _refused(key: str, error: PeerError, call: Call) -> Coordinator:
    call.count_refusal(error.code)
    return Coordinator(
        key=key,
        node_id=-1,
        host="",
        port=-1,
        error_code=error.code,
        error_message=str(error),
    )
