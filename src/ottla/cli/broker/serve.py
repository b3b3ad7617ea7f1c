"""`ottla serve`: one broker, for scripts and service managers."""

import os

from ottla.broker.event_log import Level
from ottla.broker.node.endpoints import Endpoints
from ottla.cli.broker.run import run_broker
from ottla.cli.broker.settings import BrokerFlags, ClusterFlags, load_settings
from ottla.settings.development import DEVELOPMENT, development_of_cluster

READY = "ready"


def serve(flags: BrokerFlags, *, is_up: bool = False, cluster: ClusterFlags | None = None) -> None:
    """Runs until a signal stops it. Standard output has one line, when it is ready.

    `is_up`: `ottla up` started it, with a developer's defaults; `cluster` if with others.
    """
    defaults = DEVELOPMENT if is_up else None
    if cluster is not None:
        defaults = development_of_cluster(cluster.brokers)
    settings = load_settings(flags, os.environ, defaults)
    run_broker(settings, Level.INFO, _say_ready, writes_pid_file=is_up)


def _say_ready(endpoints: Endpoints) -> None:
    print(
        f"{READY} kafka={endpoints.kafka} metrics={endpoints.metrics} pid={os.getpid()}",
        flush=True,
    )
