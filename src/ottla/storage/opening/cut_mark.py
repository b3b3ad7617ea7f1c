"""Marks a log from which recovery cuts records, until the broker has recorded the damage.

After the cut the log looks sound. So the mark comes first: if the process is killed before the
damage is recorded, the next recovery reports it again.

The mark need not be durable: after a reboot no log of the broker counts as intact.
"""

import contextlib

from ottla.seams.files import Files
from ottla.storage.opening.tail_scan import Recovery

MARK = "cut-and-not-reported"
CUT_BEFORE = "an earlier recovery has cut it"


def mark_cut(files: Files, directory: str) -> None:
    """To be called before records are cut from the log in `directory`. OSError."""
    if not files.exists(_mark(directory)):
        files.create(_mark(directory)).close()


def with_earlier_cut(files: Files, directory: str, recovery: Recovery) -> Recovery:
    """The result of a recovery, which has also the cut of an earlier one if there is a mark."""
    if not files.exists(_mark(directory)):
        return recovery
    return recovery._replace(cut_because=recovery.cut_because or CUT_BEFORE, is_torn_write=False)


def remove_cut_mark(files: Files, directory: str) -> None:
    """The damage is recorded. If the mark cannot be removed, it is recorded again later."""
    with contextlib.suppress(OSError):
        if files.exists(_mark(directory)):
            files.remove(_mark(directory))
            # A mark that comes back after a clean stop would report damage that there is not.
            files.sync_dir(directory)


def _mark(directory: str) -> str:
    return f"{directory}/{MARK}"
