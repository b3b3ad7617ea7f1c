"""A group's settings in force: its overrides and its broker's, within the broker's bounds."""

from collections.abc import Iterator
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError
from ottla.settings.broker import BrokerSettings
from ottla.settings.resource_configs import ResourceConfigs
from ottla.settings.setting import BadSetting, ConfigSource, Setting
from ottla.settings.table import GROUP_SETTINGS
from ottla.settings.table import consumer_groups as table


class Bounds(NamedTuple):
    """A broker's setting, the group's setting that overrides it, and the bounds of both."""

    broker: Setting[int]
    group: Setting[int]
    least: Setting[int]
    most: Setting[int]


BOUNDS = (
    Bounds(
        table.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS,
        table.CONSUMER_HEARTBEAT_INTERVAL_MS,
        table.GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS,
        table.GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS,
    ),
    Bounds(
        table.GROUP_CONSUMER_SESSION_TIMEOUT_MS,
        table.CONSUMER_SESSION_TIMEOUT_MS,
        table.GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS,
        table.GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS,
    ),
    Bounds(
        table.GROUP_CONSUMER_ASSIGNMENT_INTERVAL_MS,
        table.CONSUMER_ASSIGNMENT_INTERVAL_MS,
        table.GROUP_CONSUMER_MIN_ASSIGNMENT_INTERVAL_MS,
        table.GROUP_CONSUMER_MAX_ASSIGNMENT_INTERVAL_MS,
    ),
)


class GroupConfigs(ResourceConfigs):
    """A group's settings, read by definition; the broker's where the group sets none."""

    __slots__ = ()
    table = GROUP_SETTINGS
    source = ConfigSource.DYNAMIC_GROUP

    def in_bounds(self, setting: Setting[int]) -> int:
        """The value that the group uses: clamped to the broker's bounds, which may have changed
        since the group set its own."""
        bounds = next(each for each in BOUNDS if each.group is setting)
        return min(max(self[setting], self._broker[bounds.least]), self._broker[bounds.most])


def check_group_configs(configs: GroupConfigs, broker: BrokerSettings) -> None:
    """PeerError INVALID_CONFIG if a group's settings are out of bounds or contradict each other."""
    for bounds in BOUNDS:
        value = configs[bounds.group]
        if value < broker[bounds.least]:
            _refuse(bounds.group, f"greater than or equal to {bounds.least.name}")
        if value > broker[bounds.most]:
            _refuse(bounds.group, f"less than or equal to {bounds.most.name}")
    session, interval = table.CONSUMER_SESSION_TIMEOUT_MS, table.CONSUMER_HEARTBEAT_INTERVAL_MS
    if configs[session] <= configs[interval]:
        _refuse(session, f"greater than {interval.name}")


def check_broker_bounds(settings: BrokerSettings) -> None:
    """BadSetting if a broker's static settings are out of its own bounds, as in Kafka."""
    for fault in _faults(settings):
        raise BadSetting(fault)


def _faults(settings: BrokerSettings) -> Iterator[str]:
    for bounds in BOUNDS:
        value, least, most = (settings[each] for each in (bounds.broker, bounds.least, bounds.most))
        if most < least:
            yield _invalid(bounds.most, most, f"at least {bounds.least.name}, which is {least}")
        if value < least:
            yield _invalid(bounds.broker, value, f"at least {bounds.least.name}, which is {least}")
        if value > most:
            yield _invalid(bounds.broker, value, f"at most {bounds.most.name}, which is {most}")
    interval, session = BOUNDS[0].broker, BOUNDS[1].broker
    if settings[interval] >= settings[session]:
        below = f"less than {session.name}, which is {settings[session]}"
        yield _invalid(interval, settings[interval], below)


def _invalid(setting: Setting[int], value: int, allowed: str) -> str:
    return f"Invalid value {value} for configuration {setting.name}: must be {allowed}"


def _refuse(setting: Setting[int], bound: str) -> None:
    raise PeerError(ErrorCode.INVALID_CONFIG, f"{setting.name} must be {bound}")
