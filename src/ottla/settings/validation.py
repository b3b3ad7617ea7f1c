"""Validates settings that clients change. Errors carry Kafka's code and the allowed values."""

from collections.abc import Mapping
from typing import Any

from ottla.errors import ErrorCode, PeerError
from ottla.nearest import did_you_mean
from ottla.settings.setting import BadSetting, Setting
from ottla.settings.table import BROKER_SETTINGS, GROUP_SETTINGS, TOPIC_SETTINGS


def validate_topic_config(name: str, value: str | None) -> str:
    """The stored form of a topic setting. PeerError if it does not exist or the value is not
    allowed."""
    return _validated("topic", TOPIC_SETTINGS, name, value)


def validate_group_config(name: str, value: str | None) -> str:
    """The stored form of a group setting. PeerError as for topics."""
    return _validated("group", GROUP_SETTINGS, name, value)


def validate_broker_config(name: str, value: str | None) -> str:
    """The stored form of a broker setting. PeerError as for topics, and if it is not dynamic."""
    text = _validated("broker", BROKER_SETTINGS, name, value)
    if not BROKER_SETTINGS[name].is_dynamic:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"Cannot update these configs dynamically: [{name}]"
        )
    return text


def _validated(
    resource: str, table: Mapping[str, Setting[Any]], name: str, value: str | None
) -> str:
    setting = table.get(name)
    if setting is None:
        raise PeerError(
            ErrorCode.INVALID_CONFIG,
            f"Unknown {resource} config name: {name[:100]}{did_you_mean(name[:100], table)}",
        )
    if value is None:
        raise PeerError(
            ErrorCode.INVALID_CONFIG, f"Null value not supported for {resource} configs: {name}"
        )
    try:
        parsed = setting.parse(value)
    except BadSetting as error:
        raise PeerError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return value if setting.kind.is_secret else str(setting.kind.format(parsed))
