"""DescribeCluster (60) v0-2. Gaps: none."""

from enum import IntEnum

from ottla.broker.requests.advertised_addresses import known_brokers
from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.describe_cluster import (
    Broker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.primitives import OPERATIONS_NOT_ASKED_FOR


class EndpointType(IntEnum):
    """The kind of nodes that a request asks for."""

    BROKERS = 1
    CONTROLLERS = 2


def handle(request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    """The brokers of the cluster, with addresses on this client's listener."""
    _check_endpoint_type(request.endpoint_type)
    operations = OPERATIONS_NOT_ASKED_FOR
    if request.include_cluster_authorized_operations:
        operations = call.authorized_operations(CLUSTER) if call.may(CLUSTER) else 0
    return DescribeClusterResponse(
        error_code=ErrorCode.NONE,
        cluster_id=call.services.identity.cluster_id,
        controller_id=call.services.controller_id,
        brokers=tuple(
            Broker(
                broker_id=each.broker_id,
                host=each.host,
                port=each.port,
                rack=each.rack,
                is_fenced=not each.is_up,
            )
            for each in known_brokers(call)
            if each.is_up or request.include_fenced_brokers
        ),
        cluster_authorized_operations=operations,
    )


def _check_endpoint_type(endpoint_type: int) -> None:
    if endpoint_type == EndpointType.CONTROLLERS:
        raise PeerError(
            ErrorCode.MISMATCHED_ENDPOINT_TYPE, "This is a broker's endpoint, not a controller's."
        )
    if endpoint_type != EndpointType.BROKERS:
        raise PeerError(
            ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"There is no endpoint type {endpoint_type}."
        )
