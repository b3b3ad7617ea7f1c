"""Runs one broker in this process until a signal ends it."""

import asyncio
import errno
import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress

import uvloop

from ottla.broker.event_log import Level, NodeLogger
from ottla.broker.node.context import Seams
from ottla.broker.node.endpoints import Endpoints
from ottla.broker.node.node import Node
from ottla.cli.broker.descriptor_limit import connections_max, raise_limit
from ottla.cli.broker.pid_file import read_pid, remove_pid, write_pid
from ottla.cli.broker.proc_table import is_listened_on, listener_on, user_of
from ottla.cli.broker.settings import data_directory, node_id
from ottla.cli.log.broker_files import foreign_in_new, listed
from ottla.cli.shared.failure import Failure
from ottla.errors import CorruptLog, StorageError
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import RealFiles
from ottla.seams.net import RealNet
from ottla.seams.threads import RealThreads
from ottla.seams.workers import RealWorkers
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.network import MAX_CONNECTIONS, SOCKET_LISTEN_BACKLOG_SIZE
from ottla.settings.table.node import LISTENERS, LOG_DIRS, METRICS_PORT

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# What a request makes goes with it: little is left to a collector, which need not look so often.
COLLECTED_AT = (10_000, 20, 20)


def run_broker(
    settings: BrokerSettings,
    level: Level,
    on_ready: Callable[[Endpoints], None],
    *,
    leaves_pid: bool,
) -> None:
    """Returns after a controlled stop, by SIGTERM or SIGINT. Failure if it cannot start.

    A second signal ends it at once, and the next start has to recover. `leaves_pid` has it leave
    its process id beside the data for as long as it runs, so that `ottla down` finds it.
    """
    data = data_directory(settings)
    gc.set_threshold(*COLLECTED_AT)
    try:
        os.makedirs(os.path.dirname(data), exist_ok=True)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings, level, on_ready, leaves_pid=leaves_pid))
    except CorruptLog as error:
        advice = f"`ottla log verify {data}` says more, and can repair"
        raise Failure(f"{data} is damaged", why=str(error), advice=advice) from error
    except StorageError as error:
        raise _unusable(data, str(error)) from error
    except PermissionError as error:
        raise _unusable(data, f"{error.filename}: {error.strerror}") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise _port_taken(settings) from error
        raise
    finally:
        # Only our own: a start that failed leaves that of the process that was first.
        if read_pid(data) == os.getpid():
            remove_pid(data)


async def _run(
    settings: BrokerSettings,
    level: Level,
    on_ready: Callable[[Endpoints], None],
    *,
    leaves_pid: bool,
) -> None:
    def on_owned() -> None:
        """Before any client is answered; a pid that is there is that of a process that ended."""
        data = data_directory(settings)
        if leaves_pid:
            write_pid(data, os.getpid())
        else:
            remove_pid(data)

    clock, threads = RealClock(), RealThreads()
    logger = NodeLogger(sys.stderr, clock, node_id(settings), level=level)
    for directory in settings[LOG_DIRS]:
        if foreign := foreign_in_new(directory):
            logger.warning("data directory is not empty", path=directory, holds=listed(foreign))
    net = RealNet(settings[SOCKET_LISTEN_BACKLOG_SIZE])
    seams = Seams(clock, RealEntropy(), RealFiles(), net, threads, RealWorkers())
    node = Node(
        settings,
        seams,
        logger,
        connections_max=_connections_max(settings, logger),
        on_owned=on_owned,
    )
    stop = _stop_signal()
    try:
        start = asyncio.create_task(node.start(), name="start")
        await asyncio.wait((start, stop), return_when=asyncio.FIRST_COMPLETED)
        if not start.done():
            start.cancel()
            with suppress(asyncio.CancelledError):
                await start
            return
        on_ready(start.result())
        await asyncio.wait((stop, node.fault), return_when=asyncio.FIRST_COMPLETED)
        await node.stop()
        if node.fault.done():
            raise node.fault.result()
    finally:
        logger.close()
        threads.close()


def _connections_max(settings: BrokerSettings, logger: NodeLogger) -> int:
    """As many as there are descriptors for, and a word if those are few."""
    descriptors_max = raise_limit()
    possible = connections_max(settings, descriptors_max)
    if possible < settings[MAX_CONNECTIONS]:
        logger.warning(
            "few descriptors",
            descriptors_max=descriptors_max,
            connections_max=possible,
            advice=f"raise the hard limit (ulimit -Hn), or lower {MAX_CONNECTIONS.name}",
        )
    return possible


def _stop_signal() -> "asyncio.Future[None]":
    """Resolved by the first signal to stop; the next one is the kernel's again."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def on_signal() -> None:
        stop.set_result(None)
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)

    for each in STOP_SIGNALS:
        loop.add_signal_handler(each, on_signal)
    return stop


def _unusable(data: str, why: str) -> Failure:
    holder = user_of(data)
    if holder is None:
        return Failure(
            f"{data} cannot be used", why=why, advice="name another directory with --data"
        )
    return Failure(
        f"{data} is in use by {holder}",
        why=why,
        advice="stop it (`ottla down`), or name another directory with --data",
    )


def _port_taken(settings: BrokerSettings) -> Failure:
    """Names the port and who has it, as far as that can be seen."""
    flags = {listener.port: "--port" for listener in settings[LISTENERS]}
    flags[settings[METRICS_PORT]] = "--metrics-port"
    for port, flag in flags.items():
        if port and is_listened_on(port):
            holder = listener_on(port) or "a process of another user"
            return Failure(
                f"port {port} is taken by {holder}",
                advice=f"stop it, or name another port with {flag} (0 is any free one)",
            )
    return Failure(f"one of the ports {', '.join(map(str, flags))} is taken")
