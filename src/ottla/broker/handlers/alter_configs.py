"""AlterConfigs (33) v0-2. Settings that are not named return to their defaults. Gaps: client
metrics and logger levels are refused with INVALID_REQUEST.
"""

from ottla.broker.requests.call import Call
from ottla.broker.requests.config_resources import change_each, commit_config_change, resource_key
from ottla.metadata.controller.config_changes import replace_configs
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    Resource,
    ResourceResult,
)


async def handle(request: AlterConfigsRequest, call: Call) -> AlterConfigsResponse:
    """One result per resource, in the order of the request. Replaces all its configs, or none."""
    results = await change_each(
        call,
        request.resources,
        lambda resource: _replace(resource, call, validate_only=request.validate_only),
        ResourceResult,
    )
    return AlterConfigsResponse(responses=results)


async def _replace(resource: Resource, call: Call, *, validate_only: bool) -> None:
    key = resource_key(resource, call.services, is_forwarded=call.session.is_forwarded)
    configs = [(config.name, config.value) for config in resource.configs]
    await commit_config_change(
        call.services,
        lambda image: replace_configs(image, key, configs),
        key,
        validate_only=validate_only,
    )
