"""The config resources of requests (topics, brokers, groups), and changes of their configs."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from ottla.broker.requests.authorization import CLUSTER, group_resource, topic_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.request_limits import split_at_topics_max, too_many_topics
from ottla.broker.requests.services import Services
from ottla.broker.requests.slices import SLICE_ITEMS_MAX
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.configs import ALL_BROKERS
from ottla.metadata.controller.config_changes import ConfigDecision
from ottla.metadata.controller_duties import update_min_isr
from ottla.metadata.image import Image, ResourceKey
from ottla.metadata.records import Config
from ottla.metadata.topic_names import check_topic_name
from ottla.metadata.values import ResourceKind
from ottla.protocol.config_resource import ResourceType
from ottla.settings.broker import BrokerSettings
from ottla.settings.group import GroupConfigs, check_group_configs
from ottla.settings.table.groups import GROUPS_MAX
from ottla.settings.table.replicas import MIN_INSYNC_REPLICAS

RESOURCE_TYPES = frozenset(map(int, ResourceType))


class RequestedResource(Protocol):
    """A config resource as a request names it."""

    @property
    def resource_type(self) -> int: ...

    @property
    def resource_name(self) -> str: ...


ResourceT = TypeVar("ResourceT", bound=RequestedResource)
ResultT = TypeVar("ResultT")


def resource_key(
    resource: RequestedResource, services: Services, *, is_forwarded: bool = False
) -> ResourceKey:
    """The key of a requested resource, which need not exist.

    PeerError if this broker does not serve its configs. A forwarded request may name any registered
    broker: the one that forwards it is another than this one.
    """
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            check_topic_name(name)
            return ResourceKey(ResourceKind.TOPIC, name)
        case ResourceType.BROKER:
            if not (is_forwarded and name in map(str, services.image.brokers)):
                _check_broker(name, services.identity.node_id)
            return ResourceKey(ResourceKind.BROKER, name)
        case ResourceType.GROUP:
            if not name:
                raise PeerError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
            return ResourceKey(ResourceKind.GROUP, name)
        case other if other in RESOURCE_TYPES:
            fault = f"Settings of a {ResourceType(other).name} are not served yet."
        case other:
            fault = f"There is no resource type {other}."
    raise PeerError(ErrorCode.INVALID_REQUEST, fault)


def require_allowed(resource: RequestedResource, call: Call) -> None:
    """Raises Unauthorized, a PeerError, unless the client may do this to a resource's configs.

    Configs of brokers need authorization on the cluster.
    """
    match resource.resource_type:
        case ResourceType.TOPIC:
            call.require(topic_resource(resource.resource_name))
        case ResourceType.GROUP:
            call.require(group_resource(resource.resource_name))
        case _:
            call.require(CLUSTER)


def _check_broker(name: str, node_id: int) -> None:
    if name in (ALL_BROKERS, str(node_id)):
        return
    if not name.isdecimal():
        fault = f"A broker's id is a number, and not '{name[:40]}'."
    else:
        fault = f"This is broker {node_id}; broker {name[:40]} is to be asked itself."
    raise PeerError(ErrorCode.INVALID_REQUEST, fault)


async def change_each(
    call: Call,
    resources: Sequence[ResourceT],
    change_one: Callable[[ResourceT], Awaitable[None]],
    result: Callable[..., ResultT],
) -> tuple[ResultT, ...]:
    """Changes or refuses each resource by itself, in their order. `result` makes its result.

    Refuses every occurrence of a resource that is named twice, and those beyond the limit per
    request.
    """
    settings = call.services.settings
    allowed, _ = split_at_topics_max(resources, settings)
    count = Counter((each.resource_type, each.resource_name) for each in resources)
    results = []
    for number, resource in enumerate(resources):
        if number and number % SLICE_ITEMS_MAX == 0:
            await asyncio.sleep(0)
        named = resource.resource_type, resource.resource_name
        code, message = ErrorCode.NONE, None
        try:
            if number >= len(allowed):
                raise too_many_topics(settings)
            if count[named] > 1:
                raise PeerError(
                    ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
                )
            require_allowed(resource, call)
            await change_one(resource)
        except PeerError as error:
            call.count_refusal(error.code)
            code, message = error.code, str(error)
        results.append(
            result(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return tuple(results)


async def commit_config_change(
    services: Services,
    decide: Callable[[Image], ConfigDecision],
    resource: ResourceKey,
    *,
    validate_only: bool,
) -> None:
    """Commits a change of a resource's configs, or only validates it. PeerError."""
    if resource.kind is ResourceKind.GROUP:
        decide = _within_group_bounds(decide, resource, services.settings)
    if validate_only:
        decide(services.image)
        return
    changed = await services.controller.commit(decide)
    if resource.kind is ResourceKind.TOPIC:
        # After every change: the second commit of an earlier one may have failed.
        await _update_min_isr(services, (resource.name,))
    elif MIN_INSYNC_REPLICAS.name in changed:
        await _update_min_isr(services, tuple(services.image.topic_names))


async def _update_min_isr(services: Services, topics: Sequence[str]) -> None:
    """Copies `min.insync.replicas` to the topics' partitions. PeerError if that does not fit."""
    await update_min_isr(services.controller, topics, lambda: services.settings)


def _within_group_bounds(
    decide: Callable[[Image], ConfigDecision], group: ResourceKey, settings: BrokerSettings
) -> Callable[[Image], ConfigDecision]:
    """The same decision, refused outside the bounds that the broker sets for groups."""

    def decide_within(image: Image) -> ConfigDecision:
        records, changed = decide(image)
        after = dict(image.configs(*group))
        for record in records:
            if isinstance(record, Config):
                if record.value is None:
                    after.pop(record.key, None)
                else:
                    after[record.key] = record.value
        check_group_configs(GroupConfigs(after, settings), settings)
        known = sum(each.kind is ResourceKind.GROUP for each in image.configured)
        if after and group not in image.configured and known >= settings[GROUPS_MAX]:
            raise PeerError(
                ErrorCode.POLICY_VIOLATION,
                f"There is no room for settings of more groups than {known}.",
            )
        return records, changed

    return decide_within
