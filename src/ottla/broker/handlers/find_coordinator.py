"""FindCoordinator (10) v0-6. The first request for a group's coordinator waits until
`__consumer_offsets` is created. Gaps: transactions and share groups have no coordinators, a request
for a transaction coordinator is refused with UNSUPPORTED_VERSION.
"""

from collections.abc import Awaitable, Sequence

from ottla.broker.requests.advertised_addresses import BrokerAddress, present_brokers
from ottla.broker.requests.authorization import Unauthorized, group_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.offsets_topic import create_offsets_topic
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.metadata.values import AclResource
from ottla.protocol.coordinator_type import CoordinatorType
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

BATCHED_SINCE = 4
# The message of a success before v4.
NO_ERROR = "NONE"


def handle(
    request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    if request.key_type == CoordinatorType.TRANSACTION:
        # Clients fail at once. After COORDINATOR_NOT_AVAILABLE they would retry for ever.
        raise PeerError(ErrorCode.UNSUPPORTED_VERSION, "There are no transactions here.")
    if request.key_type != CoordinatorType.GROUP:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"There are no coordinators of type {request.key_type} here."
        )
    exists = call.services.image.topic(CONSUMER_OFFSETS) is not None
    if not exists and any(call.may(group_resource(key)) for key in _requested_keys(request, call)):
        return _create_and_respond(request, call)
    return _respond(request, call)


async def _create_and_respond(
    request: FindCoordinatorRequest, call: Call
) -> FindCoordinatorResponse:
    await create_offsets_topic(call.services)
    return _respond(request, call)


def _respond(request: FindCoordinatorRequest, call: Call) -> FindCoordinatorResponse:
    brokers = present_brokers(call)
    found = tuple(_find(key, brokers, call) for key in _requested_keys(request, call))
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


def _find(group_id: str, brokers: Sequence[BrokerAddress], call: Call) -> Coordinator:
    """The leader of the group's partition of `__consumer_offsets`."""
    if not call.may(group_resource(group_id)):
        return _refused(group_id, Unauthorized(AclResource.GROUP), call)
    try:
        leader = _leader_of(call, call.services.coordinators.groups.partition_of(group_id))
        address = next(broker for broker in brokers if broker.broker_id == leader)
    except (PeerError, StopIteration):
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        message = "" if call.version >= BATCHED_SINCE else "The group's coordinator is not there."
        return _refused(group_id, PeerError(code, message), call)
    return Coordinator(
        key=group_id,
        node_id=address.broker_id,
        host=address.host,
        port=address.port,
        error_code=ErrorCode.NONE,
        error_message="",
    )


def _refused(group_id: str, error: PeerError, call: Call) -> Coordinator:
    call.count_refusal(error.code)
    return Coordinator(
        key=group_id,
        node_id=-1,
        host="",
        port=-1,
        error_code=error.code,
        error_message=str(error),
    )


def _leader_of(call: Call, index: int) -> int | None:
    image = call.services.image
    topic = image.topic(CONSUMER_OFFSETS)
    partition = image.partition(topic.topic_id, index) if topic else None
    return partition.leader.broker_id if partition and partition.leader else None
