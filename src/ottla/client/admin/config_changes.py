"""Changes of configs, and one config of many topics."""

from collections.abc import Collection, Mapping

from ottla.client.errors import UnsupportedByBroker, raise_if_refused
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.config_resource import ResourceType
from ottla.protocol.messages import describe_configs, incremental_alter_configs

_SET = 0
_DELETE = 1


async def change_configs(
    router: Router, resource: ResourceType, name: str, values: Mapping[str, str | None]
) -> None:
    """Sets configs of a topic or a broker; None deletes one. Refused."""
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=(
            incremental_alter_configs.Resource(
                resource_type=resource,
                resource_name=name,
                configs=tuple(
                    incremental_alter_configs.Config(
                        name=config,
                        config_operation=_DELETE if value is None else _SET,
                        value=value,
                    )
                    for config, value in values.items()
                ),
            ),
        ),
        validate_only=False,
    )
    answer: incremental_alter_configs.IncrementalAlterConfigsResponse
    if resource is ResourceType.BROKER:
        # Each broker changes its own configs only.
        answer = await (await router.broker(int(name))).ask(request)
    else:
        answer = await router.ask_any(request)
    for each in answer.responses:
        what = f"settings of {resource.name.lower()} {name}"
        raise_if_refused(each.error_code, what, each.error_message)


async def config_of_topics(router: Router, config: str, topics: Collection[str]) -> dict[str, str]:
    """The value of a config of each topic; a topic that does not tell it is missing."""
    if not topics:
        return {}
    request = describe_configs.DescribeConfigsRequest(
        resources=tuple(
            describe_configs.Resource(
                resource_type=ResourceType.TOPIC, resource_name=name, configuration_keys=(config,)
            )
            for name in topics
        )
    )
    try:
        answer: describe_configs.DescribeConfigsResponse = await router.ask_any(request)
    except UnsupportedByBroker:
        return {}
    return {
        each.resource_name: entry.value
        for each in answer.results
        if each.error_code == ErrorCode.NONE
        for entry in each.configs
        if entry.name == config and entry.value is not None
    }
