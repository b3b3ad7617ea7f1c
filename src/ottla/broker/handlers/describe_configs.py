"""DescribeConfigs (32) v1-4. Gaps: groups, client metrics and the levels of loggers are refused
with INVALID_REQUEST.
"""

from collections.abc import Collection
from enum import IntEnum

from ottla.broker.call import Call
from ottla.broker.services import Services
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.configs import ALL_BROKERS, broker_settings, topic_configs
from ottla.metadata.topic_names import check_topic_name
from ottla.metadata.values import ResourceKind
from ottla.protocol.messages.describe_configs import (
    Config,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    Resource,
    ResourceResult,
    Synonym,
)
from ottla.settings.describe import ConfigRow, describe_broker, describe_topic


class ResourceType(IntEnum):
    """Kafka's numbers of what has settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


_RESOURCE_TYPES = frozenset(map(int, ResourceType))


def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    """Every setting of every resource, or those that are asked for."""
    for resource in request.resources:
        if resource.resource_type not in _RESOURCE_TYPES:
            raise PeerError(
                ErrorCode.INVALID_REQUEST, f"There is no resource type {resource.resource_type}."
            )
    return DescribeConfigsResponse(
        results=tuple(_describe(resource, request, call) for resource in request.resources)
    )


def _describe(resource: Resource, request: DescribeConfigsRequest, call: Call) -> ResourceResult:
    code, message = ErrorCode.NONE, ""
    rows: tuple[ConfigRow, ...] = ()
    try:
        rows = _rows(resource, call.services)
    except PeerError as error:
        code, message = error.code, str(error)
    return ResourceResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_config(row, request) for row in rows),
    )


def _rows(resource: Resource, services: Services) -> tuple[ConfigRow, ...]:
    # No keys are all keys, as in Kafka.
    keys = frozenset(resource.configuration_keys or ()) or None
    match resource.resource_type:
        case ResourceType.TOPIC:
            return _topic_rows(resource.resource_name, keys, services)
        case ResourceType.BROKER:
            return _broker_rows(resource.resource_name, keys, services)
    kind = ResourceType(resource.resource_type).name
    raise PeerError(ErrorCode.INVALID_REQUEST, f"Settings of a {kind} are not served yet.")


def _topic_rows(
    name: str, keys: Collection[str] | None, services: Services
) -> tuple[ConfigRow, ...]:
    check_topic_name(name)
    if services.image.topic(name) is None:
        # Kafka says nothing more.
        raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    return describe_topic(topic_configs(services.image, name, services.settings), keys)


def _broker_rows(
    name: str, keys: Collection[str] | None, services: Services
) -> tuple[ConfigRow, ...]:
    """This broker's settings; for the name of all brokers what was set for all of them."""
    if name == ALL_BROKERS:
        shared = services.image.configs(ResourceKind.BROKER, ALL_BROKERS)
        settings = services.settings.with_dynamic(broker={}, cluster=shared)
        return describe_broker(settings, [key for key in shared if keys is None or key in keys])
    if name != str(services.node_id):
        if not name.isdecimal():
            fault = f"A broker's id is a number, and not '{name[:40]}'."
        else:
            fault = f"This is broker {services.node_id}; broker {name[:40]} is to be asked itself."
        raise PeerError(ErrorCode.INVALID_REQUEST, fault)
    settings = broker_settings(services.image, services.node_id, services.settings)
    return describe_broker(settings, keys)


def _config(row: ConfigRow, request: DescribeConfigsRequest) -> Config:
    synonyms = row.synonyms if request.include_synonyms else ()
    return Config(
        name=row.name,
        value=row.value,
        read_only=row.is_read_only,
        config_source=row.source,
        is_sensitive=row.is_sensitive,
        synonyms=tuple(
            Synonym(name=each.name, value=each.value, source=each.source) for each in synonyms
        ),
        config_type=row.config_type,
        documentation=row.documentation if request.include_documentation else None,
    )
