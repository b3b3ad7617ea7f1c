"""The context that all parts of a node share: seams, settings, logger, metrics, health, tasks."""

from dataclasses import dataclass

from ottla.broker.event_log import Logger
from ottla.broker.http.health import Health
from ottla.broker.node.dynamic_settings import DynamicSettings
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
    """All access of a node to the outside world."""

    clock: Clock
    entropy: Entropy
    files: Files
    net: Net
    threads: Threads
    workers: Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContext:
    """Created before anything is opened; unchanged from `start` to `stop`."""

    # The settings that the node was started with.
    settings: BrokerSettings
    dynamic_settings: DynamicSettings
    seams: Seams
    logger: Logger
    metrics: NodeMetrics
    health: Health
    tasks: Tasks
