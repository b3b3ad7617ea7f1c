"""DescribeConfigs (32) v1-4. Gaps: client metrics and logger levels are refused with
INVALID_REQUEST, group settings for share and streams groups are not listed.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.broker.requests.call import Call
from ottla.broker.requests.config_resources import RESOURCE_TYPES, require_allowed, resource_key
from ottla.broker.requests.services import Services
from ottla.broker.requests.slices import map_in_slices
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


async def handle(request: DescribeConfigsRequest, call: Call) -> DescribeConfigsResponse:
    """One result per resource, with all its configs or those that are requested."""
    for resource in request.resources:
        if resource.resource_type not in RESOURCE_TYPES:
            raise PeerError(
                ErrorCode.INVALID_REQUEST, f"There is no resource type {resource.resource_type}."
            )
    results = await map_in_slices(
        lambda asked: _describe(*asked, request, call), _distinct(request.resources).items()
    )
    return DescribeConfigsResponse(results=results)


class ResourceName(NamedTuple):
    """A config resource as a request names it."""

    resource_type: int
    resource_name: str


# The requested configs; None for all of them.
Keys = frozenset[str] | None


def _distinct(resources: Iterable[Resource]) -> dict[ResourceName, Keys]:
    """Each resource once, with all its requested keys. As in Kafka, no keys mean all keys."""
    asked: dict[ResourceName, set[str] | None] = {}
    for each in resources:
        named = ResourceName(each.resource_type, each.resource_name)
        keys = asked.setdefault(named, set())
        if not each.configuration_keys:
            asked[named] = None
        elif keys is not None:
            keys.update(each.configuration_keys)
    return {named: None if keys is None else frozenset(keys) for named, keys in asked.items()}


def _describe(
    resource: ResourceName, keys: Keys, request: DescribeConfigsRequest, call: Call
) -> ResourceResult:
    code, message = ErrorCode.NONE, ""
    rows: tuple[ConfigRow, ...] = ()
    try:
        require_allowed(resource, call)
        rows = _rows(resource, keys, call.services)
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


def _rows(resource: ResourceName, keys: Keys, services: Services) -> tuple[ConfigRow, ...]:
    kind, name = resource_key(resource, services)
    if kind is ResourceKind.TOPIC:
        if services.image.topic(name) is None:
            # Kafka sends no message.
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
