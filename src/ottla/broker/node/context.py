"""All parts of one node share these: its seams, settings, log, metrics, health and tasks."""

from dataclasses import dataclass

from ottla.broker.event_log import Logger
from ottla.broker.http.health import Health
from ottla.broker.node.dynamic_settings import SettingsInForce
from ottla.broker.tasks import Tasks
from ottla.metrics.node import NodeMetrics
from ottla.seams.clock import Clock
from ottla.seams.entropy import Entropy
from ottla.seams.files import Files
from ottla.seams.net import Net
from ottla.seams.threads import Threads
from ottla.seams.workers import Workers
from ottla.settings.broker import BrokerSettings


@dataclass(frozen=True, slots=True)
class Seams:
    """What a node may touch of the world."""

    clock: Clock
    entropy: Entropy
    files: Files
    net: Net
    threads: Threads
    workers: Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """Made before anything is opened; the same from `start` to `stop`."""

    # The settings that the node was started with; clients may change some of those in force.
    settings: BrokerSettings
    in_force: SettingsInForce
    seams: Seams
    logger: Logger
    metrics: NodeMetrics
    health: Health
    tasks: Tasks
