"""All settings by name, in one file per area.

Code reads the constants of these files. Names that are only fallbacks, such as
`log.retention.hours` for `retention.ms`, have no constant.
"""

from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from ottla.settings.setting import Scope, Setting
from ottla.settings.table import (
    consumer_groups,
    groups,
    network,
    node,
    records,
    replicas,
    replication,
    retention,
    segments,
    tiers,
    transactions,
    zookeeper,
)

AREAS: tuple[ModuleType, ...] = (
    node,
    zookeeper,
    network,
    replicas,
    replication,
    records,
    retention,
    segments,
    groups,
    consumer_groups,
    transactions,
    tiers,
)


def constants(area: ModuleType) -> dict[str, Setting[Any]]:
    """The definitions of one area, by the names of their constants."""
    return {name: value for name, value in vars(area).items() if isinstance(value, Setting)}


def _by_name(scope: Scope) -> Mapping[str, Setting[Any]]:
    found: dict[str, Setting[Any]] = {}
    for area in AREAS:
        for defined in constants(area).values():
            for setting in (defined, *(each.setting for each in defined.fallbacks)):
                if setting.scope is scope and found.setdefault(setting.name, setting) != setting:
                    raise ValueError(f"{setting.name} is defined twice")
    return MappingProxyType(dict(sorted(found.items())))


TOPIC_SETTINGS = _by_name(Scope.TOPIC)
BROKER_SETTINGS = _by_name(Scope.BROKER)
GROUP_SETTINGS = _by_name(Scope.GROUP)
