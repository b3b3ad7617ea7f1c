"""The limit of open files and sockets of this process."""

import resource
from contextlib import suppress

from ottla.settings.broker import BrokerSettings
from ottla.settings.table.node import LOG_DIRS
from ottla.settings.table.segments import FILES_OPEN_MAX

# For the event loop, standard streams, listeners, metrics, and segments with pending reads.
SPARE_DESCRIPTORS = 256
CONNECTIONS_MIN = 16


def raise_limit() -> int:
    """Raises the soft limit to the hard limit, as a JVM does, and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # The kernel may refuse it; then the limit stays as it was.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def connections_max(settings: BrokerSettings, descriptors_max: int) -> int:
    """The number of connections that leave enough descriptors for the logs."""
    files = settings[FILES_OPEN_MAX] * len(settings[LOG_DIRS])
    return max(CONNECTIONS_MIN, descriptors_max - files - SPARE_DESCRIPTORS)
