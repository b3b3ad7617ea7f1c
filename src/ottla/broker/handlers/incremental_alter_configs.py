"""IncrementalAlterConfigs (44) v0-1. Each resource is changed or refused by itself. Gaps: client
metrics and logger levels are refused with INVALID_REQUEST.
"""

from ottla.broker.requests.call import Call
from ottla.broker.requests.config_resources import change_each, commit_config_change, resource_key
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.config_changes import ConfigChange, ConfigOperation, change_configs
from ottla.protocol.messages.incremental_alter_configs import (
    Config,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    Resource,
    ResourceResult,
)

_OPERATIONS = frozenset(map(int, ConfigOperation))


async def handle(
    request: IncrementalAlterConfigsRequest, call: Call
) -> IncrementalAlterConfigsResponse:
    """One result per resource, in the order of the request. Makes all its changes, or none."""
    results = await change_each(
        call,
        request.resources,
        lambda resource: _change(resource, call, validate_only=request.validate_only),
        ResourceResult,
    )
    return IncrementalAlterConfigsResponse(responses=results)


async def _change(resource: Resource, call: Call, *, validate_only: bool) -> None:
    key = resource_key(resource, call.services, is_forwarded=call.session.is_forwarded)
    changes = [_config_change(config) for config in resource.configs]
    await commit_config_change(
        call.services,
        lambda image: change_configs(image, key, changes),
        key,
        validate_only=validate_only,
    )


def _config_change(config: Config) -> ConfigChange:
    if config.config_operation not in _OPERATIONS:
        raise PeerError(
            ErrorCode.INVALID_REQUEST,
            f"There is no operation {config.config_operation} for a setting; allowed is "
            + ", ".join(f"{each.value} ({each.name})" for each in ConfigOperation),
        )
    return ConfigChange(config.name, ConfigOperation(config.config_operation), config.value)
