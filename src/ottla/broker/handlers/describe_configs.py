"""DescribeConfigs (32) v1-4. Gaps: client metrics and the levels of loggers are refused with
INVALID_REQUEST, a group's settings for share and streams groups are not listed.
"""

from ottla.broker.call import Call
from ottla.broker.config_resources import RESOURCE_TYPES, resource_key
from ottla.broker.services import Services
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.configs import ALL_BROKERS, group_configs, topic_configs
from ottla.metadata.values import ResourceKind
from ottla.protocol.messages.describe_configs import (
    Config,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    Resource,
    ResourceResult,
    Synonym,
)
from ottla.settings.describe import (
    ConfigRow,
    describe_broker,
    describe_cluster,
    describe_group,
    describe_topic,
)


def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    """Every setting of every resource, or those that are asked for."""
    for resource in request.resources:
        if resource.resource_type not in RESOURCE_TYPES:
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
        call.count_refusal(error.code)
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
    kind, name = resource_key(resource, services)
    if kind is ResourceKind.TOPIC:
        if services.image.topic(name) is None:
            # Kafka says nothing more.
            raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
        return describe_topic(topic_configs(services.image, name, services.settings), keys)
    if kind is ResourceKind.GROUP:
        return describe_group(group_configs(services.image, name, services.settings), keys)
    if name == ALL_BROKERS:
        return describe_cluster(services.image.configs(kind, name), keys)
    return describe_broker(services.settings, keys)


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
