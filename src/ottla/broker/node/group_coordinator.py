"""The group coordinator of a node, put together from its settings."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, assert_never

from ottla.broker.event_log import Logger
from ottla.broker.requests.offsets_topic import MESSAGE_BYTES_MAX
from ottla.broker.tasks import Tasks
from ottla.coordinators.group.coordinator import GroupCoordinator
from ottla.coordinators.runtime.shards import CoordinatorKind, ShardParts, Shards
from ottla.metadata.image import Image
from ottla.metadata.topic_names import CONSUMER_OFFSETS
from ottla.metadata.values import ResourceKind
from ottla.metrics.meters import GroupMeter
from ottla.replication.append.appender import Appender
from ottla.replication.append.flusher import Flusher
from ottla.replication.replicas import Replicas
from ottla.seams.clock import Clock
from ottla.seams.threads import Threads
from ottla.settings.broker import BrokerSettings
from ottla.settings.group import GroupConfigs
from ottla.settings.table import groups

if TYPE_CHECKING:
    from ottla.coordinators.group.consumer.rules import ConsumerRules
    from ottla.coordinators.group.group import Group
    from ottla.coordinators.group.machine import GroupMachine

_MINUTE_MS = 60_000
# Less than a batch may be: records have overheads.
DECISION_BYTES_MAX = MESSAGE_BYTES_MAX - (MESSAGE_BYTES_MAX >> 4)
RULES_KEPT_MAX = 100


class ShardLog:
    """Says in the broker's log what happens to shards, and counts it."""

    def __init__(self, logger: Logger, meter: GroupMeter) -> None:
        self._logger = logger
        self._meter = meter

    def loaded(self, partition: str, took_ms: int, longest_stall_ns: int) -> None:
        self._meter.note_load(took_ms, longest_stall_ns)
        self._logger.debug("groups loaded", partition=partition, took_ms=took_ms)

    def record_skipped(self, partition: str, offset: int, error: Exception) -> None:
        self._logger.warning(
            "group record skipped",
            repeats_of=partition,
            partition=partition,
            offset=offset,
            error=str(error),
        )

    def failed(self, partition: str, error: Exception) -> None:
        self._meter.failures += 1
        self._logger.error(
            "group coordinator failed", repeats_of=partition, partition=partition, error=str(error)
        )


@dataclass(frozen=True, slots=True)
class GroupWorld:
    """What groups live by, as it is when they ask."""

    settings: Callable[[], BrokerSettings]
    image: Callable[[], Image]
    meter: GroupMeter


def group_coordinator(
    world: GroupWorld,
    *,
    replicas: Replicas,
    appender: Appender,
    flusher: Flusher,
    clock: Clock,
    threads: Threads,
    tasks: Tasks,
    logger: Logger,
) -> GroupCoordinator:
    """The group coordinator of a broker, before its start."""
    kind = CoordinatorKind(
        topic=CONSUMER_OFFSETS,
        new_machine=lambda: group_machine(world),
        # Groups decide no effects.
        perform=assert_never,
        listener=ShardLog(logger, world.meter),
        commit_timeout_ms=world.settings()[groups.OFFSETS_COMMIT_TIMEOUT_MS],
        decision_bytes_max=DECISION_BYTES_MAX,
    )
    parts = ShardParts(
        replicas=replicas,
        appender=appender,
        flusher=flusher,
        clock=clock,
        threads=threads,
        spawn=tasks.spawn,
    )
    return GroupCoordinator(Shards(kind, parts), clock)


# Imported when there is a group: a broker without any starts sooner, and is smaller.


def group_machine(world: GroupWorld) -> "GroupMachine":
    """Where nothing is known yet."""
    from ottla.coordinators.group.machine import GroupMachine, GroupRules

    settings = world.settings()
    rules = GroupRules(
        offset_metadata_bytes_max=settings[groups.OFFSET_METADATA_MAX_BYTES],
        commit_bytes_max=DECISION_BYTES_MAX,
        offsets_retention_ms=settings[groups.OFFSETS_RETENTION_MINUTES] * _MINUTE_MS,
        retention_check_interval_ms=settings[groups.OFFSETS_RETENTION_CHECK_INTERVAL_MS],
        groups_max=settings[groups.GROUPS_MAX],
    )
    return GroupMachine(
        rules,
        lambda group_id: _new_classic(group_id, world.settings()),
        lambda group_id: _new_consumer(group_id, world),
        world.meter,
    )


def consumer_rules(group_id: str, settings: BrokerSettings, image: Image) -> "ConsumerRules":
    """What a group of the consumer protocol goes by: its own settings, and the broker's."""
    own = image.configs(ResourceKind.GROUP, group_id)
    return _consumer_rules(settings, tuple(own.items()))


@lru_cache(RULES_KEPT_MAX)
def _consumer_rules(settings: BrokerSettings, own: tuple[tuple[str, str], ...]) -> "ConsumerRules":
    """Every heartbeat asks, and most groups set nothing of their own."""
    from ottla.coordinators.group.consumer.rules import ConsumerRules

    return ConsumerRules.of(settings, GroupConfigs(dict(own), settings))


def _new_classic(group_id: str, settings: BrokerSettings) -> "Group":
    from ottla.coordinators.group.classic.group import ClassicGroup
    from ottla.coordinators.group.classic.rules import classic_rules

    return ClassicGroup(group_id, classic_rules(settings, MESSAGE_BYTES_MAX))


def _new_consumer(group_id: str, world: GroupWorld) -> "Group":
    from ottla.coordinators.group.consumer.group import ConsumerGroup
    from ottla.coordinators.group.consumer.topics import ImageTopics

    image = world.image()
    rules = consumer_rules(group_id, world.settings(), image)
    return ConsumerGroup(group_id, rules, ImageTopics(image))
