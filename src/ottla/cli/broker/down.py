"""`ottla down`: stops the system that `ottla up` started; `--wipe` removes its data."""

import os
import signal
import time
from contextlib import suppress

from ottla.cli.broker.pid_file import read_pid, remove_pid
from ottla.cli.broker.proc_table import Process, is_running, process_using
from ottla.cli.broker.settings import check_not_empty
from ottla.cli.broker.wipe import META_PROPERTIES, Removed, locked, remove
from ottla.cli.cluster.cluster_file import is_cluster_directory
from ottla.cli.cluster.wipe import classify_cluster, locked_cluster, remove_cluster
from ottla.cli.log.broker_files import abbreviated, classify_entries
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import RowWriter, say

STOP_TIMEOUT_S = 60.0
_POLL_S = 0.05


def down(data: str, writer: RowWriter, *, wipes: bool, may_act: bool) -> None:
    """Waits until the system has stopped. Failure if it does not, or if `ottla up` did not start
    it."""
    check_not_empty(data)
    data = os.path.abspath(data)
    holder = process_using(data)
    if holder is None:
        with locked(data, makes_lock=False):
            pass
    if wipes:
        _show_plan(data, holder, writer)
        if not may_act:
            say("nothing was changed: `--yes` stops the broker there and removes its data")
            return
    if holder is None:
        say(f"no broker is running on {data}")
    else:
        _stop(data, holder)
    if wipes and is_cluster_directory(data):
        with locked_cluster(data):
            _say_removed(data, remove_cluster(data))
        return
    with locked(data, makes_lock=wipes):
        remove_pid(data)
        if wipes:
            _say_removed(data, remove(data))


def _say_removed(data: str, removed: Removed) -> None:
    if removed.why_left is None:
        say(f"removed {data}")
        return
    say(f"removed all data in {data}, but not the directory: {removed.why_left}")
    if removed.foreign:
        say(f"kept: {abbreviated(removed.foreign)}")


def _stop(data: str, holder: Process) -> None:
    """Stops the process that uses the directory. Failure if it is not the one in the pid file."""
    if read_pid(data) != holder.pid:
        raise Failure(
            f"{data} is in use by {holder}",
            why="`ottla up` did not start it",
            advice=f"stop it where it was started, or `kill {holder.pid}`",
        )
    # It may have ended in the meantime.
    with suppress(ProcessLookupError):
        os.kill(holder.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    # It writes a few files after it has released the lock, so wait for the process itself.
    while is_running(holder.pid):
        if time.monotonic() > deadline:
            raise Failure(f"{holder} has not stopped after {STOP_TIMEOUT_S:.0f} s")
        time.sleep(_POLL_S)
    say(f"stopped process {holder.pid}")


def _show_plan(data: str, holder: Process | None, writer: RowWriter) -> None:
    is_cluster = is_cluster_directory(data)
    if not is_cluster and not os.path.isfile(os.path.join(data, META_PROPERTIES)):
        raise Failure(
            f"{data} is not a data directory",
            why=f"it has no {META_PROPERTIES}",
            exit_code=ExitCode.NOT_FOUND,
        )
    own, foreign = classify_cluster(data) if is_cluster else classify_entries(data)
    paths = [os.path.join(data, name) for name in own]
    writer.write(
        {
            "kind": "directory",
            "name": data,
            "directories": sum(map(os.path.isdir, paths)),
            "bytes": sum(map(_size_of, paths)),
            "left_alone": abbreviated(foreign) or None,
            "runs": holder.pid if holder else None,
        }
    )
    writer.close()
    if foreign:
        say(f"kept: {abbreviated(foreign)}")


def _size_of(path: str) -> int:
    if not os.path.isdir(path):
        return _file_size(path)
    return sum(
        _file_size(os.path.join(directory, name))
        for directory, _, names in os.walk(path)
        for name in names
    )


def _file_size(path: str) -> int:
    """0 for a missing file: a broker in the directory may remove files meanwhile."""
    with suppress(FileNotFoundError):
        return os.path.getsize(path)
    return 0
