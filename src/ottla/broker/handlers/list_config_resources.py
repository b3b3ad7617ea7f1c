"""ListConfigResources (74) v0-1. Lists only groups with settings of their own. Gaps: client metrics
and loggers are not listed, since their settings are not served.
"""

from collections.abc import Iterator

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.broker.requests.config_resources import RESOURCE_TYPES
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.metadata.values import BrokerState, ResourceKind
from ottla.protocol.config_resource import ResourceType
from ottla.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

# Before v1 nothing else could be listed.
_TYPES_IN_V0 = frozenset({ResourceType.CLIENT_METRICS})


def handle(request: ListConfigResourcesRequest, call: Call) -> ListConfigResourcesResponse:
    """The resources of the requested types; without types, all resources that have configs."""
    call.require(CLUSTER)
    unknown = set(request.resource_types) - RESOURCE_TYPES
    if unknown:
        raise PeerError(ErrorCode.UNSUPPORTED_VERSION, f"There is no resource type {min(unknown)}.")
    if call.version == 0:
        types = _TYPES_IN_V0
    else:
        types = frozenset(map(ResourceType, request.resource_types or RESOURCE_TYPES))
    return ListConfigResourcesResponse(
        error_code=ErrorCode.NONE,
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, name in _resources(call.services.image)
            if kind in types
        ),
    )


def _resources(image: Image) -> Iterator[tuple[ResourceType, str]]:
    for broker_id, broker in sorted(image.brokers.items()):
        if broker.state is not BrokerState.GONE:
            yield ResourceType.BROKER, str(broker_id)
    for topic in sorted(image.topic_names):
        yield ResourceType.TOPIC, topic
    for kind, name in sorted(image.configured):
        if kind is ResourceKind.GROUP:
            yield ResourceType.GROUP, name
