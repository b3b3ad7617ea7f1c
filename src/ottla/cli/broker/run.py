"""Runs one broker in this process until a signal stops it."""

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
from ottla.cli.broker.proc_table import is_listened_on, process_listening_on, process_using
from ottla.cli.broker.settings import data_directory, node_id
from ottla.cli.cluster.cluster_file import is_cluster_directory
from ottla.cli.log.broker_files import abbreviated, foreign_entries_of_new
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.errors import CorruptLog, StorageError, StoreUnusable
from ottla.metadata.store import BrokerIdTaken
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import RealFiles
from ottla.seams.loop_watchdog import LoopWatchdog
from ottla.seams.net import RealNet
from ottla.seams.threads import RealThreads
from ottla.seams.workers import RealWorkers
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.network import MAX_CONNECTIONS, SOCKET_LISTEN_BACKLOG_SIZE
from ottla.settings.table.node import (
    EVENT_LOOP_STALL_MAX_MS,
    LISTENERS,
    LOG_DIRS,
    METRICS_PORT,
    NODE_ID,
)
from ottla.settings.table.segments import DISK_RESERVE_BYTES
from ottla.settings.table.zookeeper import ZOOKEEPER_CONNECT

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Reference counting frees a request's objects, so the garbage collector can run rarely.
GC_THRESHOLDS = (10_000, 20, 20)
# Without EFBIG: against a limit on the size of one file, free space does not help.
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


def run_broker(
    settings: BrokerSettings,
    level: Level,
    on_ready: Callable[[Endpoints], None],
    *,
    writes_pid_file: bool,
) -> None:
    """Returns after a controlled shutdown by SIGTERM or SIGINT. Failure if it cannot start.

    A second signal kills the process, and the next start has to recover. With `writes_pid_file`,
    the process id is in the data directory while the broker runs, so that `ottla down` finds it.
    """
    data = data_directory(settings)
    if is_cluster_directory(data):
        raise Failure(
            f"{data} has the brokers of a cluster",
            why="each of them has a directory inside",
            advice="start them all with `ottla up --brokers N`, or choose another directory with"
            " --data",
        )
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        os.makedirs(os.path.dirname(data), exist_ok=True)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_run(settings, level, on_ready, writes_pid_file=writes_pid_file))
    except StoreUnusable as error:
        code = ExitCode.UNREACHABLE if error.is_unreachable else ExitCode.FAILED
        raise Failure(error.what, why=error.why, advice=error.advice, exit_code=code) from error
    except BrokerIdTaken as error:
        advice = f"stop that broker, or choose another id with --set {NODE_ID.name}=N"
        raise Failure(str(error), advice=advice) from error
    except CorruptLog as error:
        advice = f"`ottla log verify {data}` reports the damage, and can repair it"
        raise Failure(f"{data} is damaged", why=str(error), advice=advice) from error
    except StorageError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in NO_SPACE:
            raise _full_disk_failure(settings, str(error)) from error
        raise _directory_failure(data, str(error)) from error
    except PermissionError as error:
        raise _directory_failure(data, f"{error.filename}: {error.strerror}") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise _port_failure(settings) from error
        if error.errno in NO_SPACE:
            why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
            raise _full_disk_failure(settings, why) from error
        raise
    finally:
        # Only our own: after a failed start it belongs to the process that holds the directory.
        if read_pid(data) == os.getpid():
            remove_pid(data)


async def _run(
    settings: BrokerSettings,
    level: Level,
    on_ready: Callable[[Endpoints], None],
    *,
    writes_pid_file: bool,
) -> None:
    def on_owned() -> None:
        """Runs before any client is served; an existing pid file belongs to an ended process."""
        data = data_directory(settings)
        if writes_pid_file:
            write_pid(data, os.getpid())
        else:
            remove_pid(data)

    clock, threads = RealClock(), RealThreads()
    logger = NodeLogger(sys.stderr, clock, node_id(settings), level=level)
    for directory in settings[LOG_DIRS]:
        if foreign := foreign_entries_of_new(directory):
            logger.warning(
                "data directory is not empty", path=directory, holds=abbreviated(foreign)
            )
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
        watchdog = _watchdog(settings, logger)
        await asyncio.wait((stop, node.fault), return_when=asyncio.FIRST_COMPLETED)
        # The last flush may take long, and nobody is served any more.
        if watchdog is not None:
            watchdog.stop()
        await node.stop()
        if node.fault.done():
            raise node.fault.result()
    finally:
        logger.close()
        threads.close()


def _watchdog(settings: BrokerSettings, logger: NodeLogger) -> LoopWatchdog | None:
    """Only in a cluster: the client's thread keeps the session of a broker that hangs."""
    stall_max_ms = settings[EVENT_LOOP_STALL_MAX_MS]
    if settings[ZOOKEEPER_CONNECT] is None or stall_max_ms == 0:
        return None

    def on_stall() -> None:
        logger.error("event loop stands still, process ends", ms=stall_max_ms)

    watchdog = LoopWatchdog(stall_max_ms / 1e3, on_stall, exit_code=ExitCode.STALLED)
    watchdog.start()
    return watchdog


def _connections_max(settings: BrokerSettings, logger: NodeLogger) -> int:
    """The number of connections that the descriptors allow; warns if it is low."""
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
    """Resolved by the first stop signal; the next one has its default action."""
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[None] = loop.create_future()

    def on_signal() -> None:
        # Two signals may arrive in one turn of the loop: a terminal's and that of `make`.
        if stop.done():
            return
        stop.set_result(None)
        for each in STOP_SIGNALS:
            loop.remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)

    for each in STOP_SIGNALS:
        loop.add_signal_handler(each, on_signal)
    return stop


def _directory_failure(data: str, why: str) -> Failure:
    holder = process_using(data)
    if holder is None:
        return Failure(
            f"{data} cannot be used", why=why, advice="choose another directory with --data"
        )
    return Failure(
        f"{data} is in use by {holder}",
        why=why,
        advice="stop it (`ottla down`), or choose another directory with --data",
    )


def _full_disk_failure(settings: BrokerSettings, why: str | None) -> Failure:
    """Names all log directories: the error of a failed write does not tell which one it was."""
    directories = " or ".join(os.path.abspath(path) for path in settings[LOG_DIRS])
    reserve_bytes = settings[DISK_RESERVE_BYTES]
    if reserve_bytes:
        advice = (
            f"free some space: with less than {reserve_bytes} bytes"
            f" ({DISK_RESERVE_BYTES.name}) a broker refuses records"
        )
    else:
        advice = f"free some space, and set {DISK_RESERVE_BYTES.name}: it keeps room for a start"
    return Failure(f"the disk of {directories} is full", why=why, advice=advice)


def check_ports(settings: BrokerSettings) -> None:
    """Failure if somebody listens on a port of this broker."""
    failure = _taken_port(settings)
    if failure is not None:
        raise failure


def _port_failure(settings: BrokerSettings) -> Failure:
    ports = ", ".join(map(str, _port_flags(settings)))
    return _taken_port(settings) or Failure(f"one of the ports {ports} is taken")


def _taken_port(settings: BrokerSettings) -> Failure | None:
    """Names the port and the process that listens on it, if we may see it."""
    for port, flag in _port_flags(settings).items():
        if port and is_listened_on(port):
            holder = process_listening_on(port) or "a process of another user"
            return Failure(
                f"port {port} is taken by {holder}",
                advice=f"stop it, or choose another port with {flag} (0 is any free one)",
            )
    return None


def _port_flags(settings: BrokerSettings) -> dict[int, str]:
    """The ports of a broker, each with the option that chooses it."""
    flags = {listener.port: "--port" for listener in settings[LISTENERS]}
    flags[settings[METRICS_PORT]] = "--metrics-port"
    return flags
