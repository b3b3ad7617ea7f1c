"""Composes the group coordinator of a node from its settings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from ottla.broker.event_log import Logger
from ottla.broker.node.shard_events import LoggingShardListener
from ottla.broker.requests.coordinator_topics import MESSAGE_BYTES_MAX
from ottla.coordinators.group.coordinator import GroupCoordinator
from ottla.coordinators.runtime.shards import CoordinatorKind, ShardParts, Shards
from ottla.metadata.image import Image
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.metadata.values import ResourceKind
from ottla.metrics.meters import GroupMeter
from ottla.settings.broker import BrokerSettings
from ottla.settings.group import GroupConfigs
from ottla.settings.table import groups, transactions

if TYPE_CHECKING:
    from ottla.coordinators.group.consumer.rules import ConsumerRules
    from ottla.coordinators.group.group import Group
    from ottla.coordinators.group.machine import GroupMachine

_MINUTE_MS = 60_000
# Below the limit of a batch, since records have overhead.
DECISION_BYTES_MAX = MESSAGE_BYTES_MAX - (MESSAGE_BYTES_MAX >> 4)
RULES_KEPT_MAX = 100


@dataclass(frozen=True, slots=True)
class GroupEnvironment:
    """The current settings and image for groups, and their metrics."""

    settings: Callable[[], BrokerSettings]
    image: Callable[[], Image]
    meter: GroupMeter


def group_coordinator(
    environment: GroupEnvironment, parts: ShardParts, logger: Logger
) -> GroupCoordinator:
    """The group coordinator of a broker, not yet started."""
    kind = CoordinatorKind(
        topic=CONSUMER_OFFSETS,
        new_machine=lambda: group_machine(environment),
        # Decisions of groups have no effects.
        perform=assert_never,
        listener=LoggingShardListener("group", logger, environment.meter),
        commit_timeout_ms=environment.settings()[groups.OFFSETS_COMMIT_TIMEOUT_MS],
        decision_bytes_max=DECISION_BYTES_MAX,
    )
    return GroupCoordinator(Shards(kind, parts), parts.clock)


# The group modules are imported with the first group: a broker without groups starts faster and
# uses less memory.


def group_machine(environment: GroupEnvironment) -> "GroupMachine":
    """A state machine without groups."""
    from ottla.coordinators.group.machine import GroupMachine, GroupRules

    settings = environment.settings()
    rules = GroupRules(
        offset_metadata_bytes_max=settings[groups.OFFSET_METADATA_MAX_BYTES],
        commit_bytes_max=DECISION_BYTES_MAX,
        offsets_retention_ms=settings[groups.OFFSETS_RETENTION_MINUTES] * _MINUTE_MS,
        retention_check_interval_ms=settings[groups.OFFSETS_RETENTION_CHECK_INTERVAL_MS],
        groups_max=settings[groups.GROUPS_MAX],
        pending_offsets_max=settings[transactions.PENDING_OFFSETS_MAX],
    )
    return GroupMachine(
        rules,
        lambda group_id: _new_classic(group_id, environment.settings()),
        lambda group_id: _new_consumer(group_id, environment),
        environment.meter,
    )


def consumer_rules(group_id: str, settings: BrokerSettings, image: Image) -> "ConsumerRules":
    """The rules of a group of the consumer protocol: its own configs over the broker's."""
    own = image.configs(ResourceKind.GROUP, group_id)
    return _consumer_rules(settings, tuple(own.items()))


@lru_cache(RULES_KEPT_MAX)
def _consumer_rules(settings: BrokerSettings, own: tuple[tuple[str, str], ...]) -> "ConsumerRules":
    """Cached, since every heartbeat needs it and most groups have no configs of their own."""
    from ottla.coordinators.group.consumer.rules import ConsumerRules

    return ConsumerRules.of(settings, GroupConfigs(dict(own), settings))


def _new_classic(group_id: str, settings: BrokerSettings) -> "Group":
    from ottla.coordinators.group.classic.group import ClassicGroup
    from ottla.coordinators.group.classic.rules import classic_rules

    return ClassicGroup(group_id, classic_rules(settings, MESSAGE_BYTES_MAX))


def _new_consumer(group_id: str, environment: GroupEnvironment) -> "Group":
    from ottla.coordinators.group.consumer.group import ConsumerGroup
    from ottla.coordinators.group.consumer.topics import ImageTopics

    image = environment.image()
    rules = consumer_rules(group_id, environment.settings(), image)
    return ConsumerGroup(group_id, rules, ImageTopics(image))
