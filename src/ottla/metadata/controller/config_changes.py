"""Decisions on changes of configs: an image and the changes give records.

Each is made on the newest image by `Controller.commit`, all or nothing. A change that is not
allowed is a PeerError with Kafka's code.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image, ResourceKey
from ottla.metadata.records import Config, Record
from ottla.metadata.values import ResourceKind
from ottla.settings.kinds import TextList
from ottla.settings.table import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS
from ottla.settings.validation import (
    validate_broker_config,
    validate_group_config,
    validate_topic_config,
)

_TABLES = {
    ResourceKind.TOPIC: TOPIC_SETTINGS,
    ResourceKind.BROKER: BROKER_SETTINGS,
    ResourceKind.GROUP: GROUP_SETTINGS,
}
_VALIDATORS = {
    ResourceKind.TOPIC: validate_topic_config,
    ResourceKind.BROKER: validate_broker_config,
    ResourceKind.GROUP: validate_group_config,
}

# The records of a change, and the names of the changed configs.
ConfigDecision = tuple[list[Record], frozenset[str]]


class ConfigOperation(IntEnum):
    """Operations on a config, by Kafka's numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """The change of one config."""

    name: str
    operation: ConfigOperation
    # The new value, or the items to add to or to remove from a list.
    value: str | None = None


def change_configs(
    image: Image, resource: ResourceKey, changes: Sequence[ConfigChange]
) -> ConfigDecision:
    """Changes these configs of a resource; its other configs stay."""
    _check_resource(image, resource)
    _check_once(change.name for change in changes)
    present = image.configs(resource.kind, resource.name)
    outcomes = {change.name: _outcome(resource.kind, change, present) for change in changes}
    return _decision(resource, outcomes, present)


def replace_configs(
    image: Image, resource: ResourceKey, configs: Sequence[tuple[str, str | None]]
) -> ConfigDecision:
    """Replaces all configs of a resource; its other configs are removed."""
    _check_resource(image, resource)
    _check_once(name for name, _ in configs)
    present = image.configs(resource.kind, resource.name)
    outcomes: dict[str, str | None] = dict.fromkeys(present)
    for name, value in configs:
        change = ConfigChange(name, ConfigOperation.SET, value)
        outcomes[name] = _outcome(resource.kind, change, present)
    return _decision(resource, outcomes, present)


# --- parts of decisions -----------------------------------------------------------------------


def _check_resource(image: Image, resource: ResourceKey) -> None:
    if resource.kind is ResourceKind.TOPIC and image.topic(resource.name) is None:
        raise PeerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource.name}' does not exist."
        )


def _check_once(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise PeerError(ErrorCode.INVALID_REQUEST, f"{name[:100]} is to be changed twice.")
        seen.add(name)


def _outcome(kind: ResourceKind, change: ConfigChange, present: Mapping[str, str]) -> str | None:
    """The value of a config after the change; None if it is removed."""
    if change.operation is ConfigOperation.DELETE:
        return None
    if change.value is None:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"Null value not supported for : {change.name[:100]}"
        )
    value = change.value
    if change.operation is not ConfigOperation.SET:
        value = _changed_list(kind, change.name, change.operation, value, present)
    return _VALIDATORS[kind](change.name, value)


def _changed_list(
    kind: ResourceKind,
    name: str,
    operation: ConfigOperation,
    value: str,
    present: Mapping[str, str],
) -> str:
    setting = _TABLES[kind].get(name)
    if setting is None or not isinstance(setting.kind, TextList):
        raise PeerError(
            ErrorCode.INVALID_CONFIG,
            f"{name[:100]} is no list: {operation.name} is for lists, allowed is SET or DELETE",
        )
    before = setting.kind.parse(present[name]) if name in present else tuple(setting.default or ())
    named = [part.strip() for part in value.split(",")]
    if operation is ConfigOperation.APPEND:
        return setting.kind.format(tuple(dict.fromkeys((*before, *named))))
    return setting.kind.format(tuple(part for part in before if part not in named))


def _decision(
    resource: ResourceKey, outcomes: Mapping[str, str | None], present: Mapping[str, str]
) -> ConfigDecision:
    changed = {name: value for name, value in outcomes.items() if value != present.get(name)}
    records: list[Record] = [
        Config(resource.kind, resource.name, name, value) for name, value in changed.items()
    ]
    return records, frozenset(changed)
