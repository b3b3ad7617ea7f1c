"""`ottla down`: ends what `ottla up` began, and with `--wipe` removes its data."""

import os
import signal
import time
from contextlib import suppress

from ottla.cli.broker_settings import check_named
from ottla.cli.failure import ExitCode, Failure
from ottla.cli.output import RowWriter, say
from ottla.cli.pid_file import read_pid, remove_pid
from ottla.cli.processes import Process, is_running, user_of
from ottla.cli.wipe import NAME_TAG, held, remove

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
            say("nothing was changed: `--yes` stops what runs there and removes the directory")
            return
    if holder is None:
        say(f"nothing runs with the data in {data}")
    else:
        _stop(data, holder)
    with held(data, makes_lock=wipes):
        remove_pid(data)
        if wipes:
            left = remove(data)
            say(f"removed all data in {data}; it is left: {left}" if left else f"removed {data}")


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
    names = os.listdir(data)
    writer.write(
        {
            "kind": "directory",
            "name": data,
            "directories": sum(os.path.isdir(os.path.join(data, name)) for name in names),
            "bytes": _size_of(data),
            "runs": holder.pid if holder else None,
        }
    )
    writer.close()


def _size_of(directory: str) -> int:
    return sum(
        _file_size(os.path.join(path, name))
        for path, _, names in os.walk(directory)
        for name in names
    )


def _file_size(path: str) -> int:
    """Nothing if it is gone: whoever works in the directory goes on meanwhile."""
    with suppress(FileNotFoundError):
        return os.path.getsize(path)
    return 0
