"""`ottla serve`: one broker, for scripts and service managers."""

import os

from ottla.broker.event_log import Level
from ottla.broker.node.endpoints import Endpoints
from ottla.cli.broker.run import run_broker
from ottla.cli.broker.settings import BrokerFlags, load_settings
from ottla.settings.development import DEVELOPMENT

READY = "ready"


def serve(flags: BrokerFlags, *, is_up: bool = False) -> None:
    """Runs until it is told to stop; says on standard output when it is ready, and nothing else.

    `is_up`: it was `ottla up` that started it, for one developer.
    """
    settings = load_settings(flags, os.environ, DEVELOPMENT if is_up else None)
    run_broker(settings, Level.INFO, _say_ready, leaves_pid=is_up)


def _say_ready(endpoints: Endpoints) -> None:
    print(
        f"{READY} kafka={endpoints.kafka} metrics={endpoints.metrics} pid={os.getpid()}",
        flush=True,
    )
