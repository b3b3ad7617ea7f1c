"""`ottla down`: ends what `ottla up` began, and with `--wipe` removes its data."""

import os
import signal
import time
from contextlib import suppress

from ottla.cli.broker.pid_file import read_pid, remove_pid
from ottla.cli.broker.proc_table import Process, is_running, user_of
from ottla.cli.broker.settings import check_named
from ottla.cli.broker.wipe import NAME_TAG, Removed, held, remove
from ottla.cli.log.broker_files import entries_of, listed
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.cli.shared.output import RowWriter, say

STOP_TIMEOUT_S = 60.0
_LOOK_EVERY_S = 0.05


def down(data: str, writer: RowWriter, *, wipes: bool, may_act: bool) -> None:
    """Waits until the system has stopped. Failure if it does not, or is not ours to stop."""
    check_named(data)
    data = os.path.abspath(data)
    holder = user_of(data)
    if holder is None:
        with held(data, makes_lock=False):
            pass
    if wipes:
        _show_plan(data, holder, writer)
        if not may_act:
            say("nothing was changed: `--yes` stops what runs there and removes its data")
            return
    if holder is None:
        say(f"nothing runs with the data in {data}")
    else:
        _stop(data, holder)
    with held(data, makes_lock=wipes):
        remove_pid(data)
        if wipes:
            _say_removed(data, remove(data))


def _say_removed(data: str, removed: Removed) -> None:
    if removed.why_left is None:
        say(f"removed {data}")
        return
    say(f"removed all data in {data}; it is left: {removed.why_left}")
    if removed.foreign:
        say(f"left alone: {listed(removed.foreign)}")


def _stop(data: str, holder: Process) -> None:
    """The process must be the one that was started for this directory and still works on it."""
    if read_pid(data) != holder.pid:
        raise Failure(
            f"{data} is in use by {holder}",
            why="`ottla up` did not start it",
            advice=f"stop it where it was started, or `kill {holder.pid}`",
        )
    # It may just have ended by itself.
    with suppress(ProcessLookupError):
        os.kill(holder.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    # Not only until it lets go of the lock: a few files are written behind that.
    while is_running(holder.pid):
        if time.monotonic() > deadline:
            raise Failure(f"{holder} has not stopped after {STOP_TIMEOUT_S:.0f} s")
        time.sleep(_LOOK_EVERY_S)
    say(f"stopped process {holder.pid}")


def _show_plan(data: str, holder: Process | None, writer: RowWriter) -> None:
    if not os.path.isfile(os.path.join(data, NAME_TAG)):
        raise Failure(
            f"{data} is no data directory",
            why=f"it has no {NAME_TAG}",
            exit_code=ExitCode.NOT_FOUND,
        )
    own, foreign = entries_of(data)
    paths = [os.path.join(data, name) for name in own]
    writer.write(
        {
            "kind": "directory",
            "name": data,
            "directories": sum(map(os.path.isdir, paths)),
            "bytes": sum(map(_size_of, paths)),
            "left_alone": listed(foreign) or None,
            "runs": holder.pid if holder else None,
        }
    )
    writer.close()
    if foreign:
        say(f"left alone: {listed(foreign)}")


def _size_of(path: str) -> int:
    if not os.path.isdir(path):
        return _file_size(path)
    return sum(
        _file_size(os.path.join(directory, name))
        for directory, _, names in os.walk(path)
        for name in names
    )


def _file_size(path: str) -> int:
    """Nothing if it is gone: whoever works in the directory goes on meanwhile."""
    with suppress(FileNotFoundError):
        return os.path.getsize(path)
    return 0
