"""How many files and sockets this process may have open at once."""

import resource
from contextlib import suppress

from ottla.settings.broker import BrokerSettings
from ottla.settings.table.node import LOG_DIRS
from ottla.settings.table.segments import FILES_OPEN_MAX

# The loop's own, streams, listeners, metrics; segments that a reader still holds.
SPARE = 256
CONNECTIONS_MIN = 16


def raise_limit() -> int:
    """As many as the system allows, which a JVM asks for as well; how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # The kernel may have a bound of its own; then it stays as it was.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_max(settings: BrokerSettings, descriptors_max: int) -> int:
    """How many clients there can be without taking the descriptors that the logs need."""
    files = settings[FILES_OPEN_MAX] * len(settings[LOG_DIRS])
    return max(CONNECTIONS_MIN, descriptors_max - files - SPARE)
