"""The broker's last life, as its disk remembers it: what decides whether memberships carry over.

A broker that lost what it had acknowledged must not come back as if it had not. Its disks are
intact if it stopped cleanly, or if the machine has not been restarted since: then a killed
process's writes are still in the page cache.

At a start: read, `inherited_epoch`, register with it, and write the new incarnation before anything
is served. At a clean stop, after the last flush: write it again, clean.
"""

from dataclasses import dataclass

from ottla.metadata.json_form import Misfit, dump, object_form, parse
from ottla.metadata.values import Int64, Name
from ottla.seams.files import Files, read_file, replace_file

FILE_NAME = "incarnation.json"

_FILE_BYTES_MAX = 64 << 10


@dataclass(frozen=True, slots=True)
class SavedIncarnation:
    """The epoch under which a broker was registered, on which run of the machine, and its end."""

    broker_epoch: Int64
    boot_id: Name
    clean: bool


_FORM = object_form(SavedIncarnation)


def is_intact(previous: SavedIncarnation, boot_id: str) -> bool:
    """Whether all that the previous incarnation wrote is still there."""
    return previous.clean or previous.boot_id == boot_id


def inherited_epoch(previous: SavedIncarnation | None, boot_id: str) -> int | None:
    """The epoch whose memberships a broker that starts now may claim."""
    if previous is None or not is_intact(previous, boot_id):
        return None
    return previous.broker_epoch


def read_incarnation(files: Files, log_directory: str) -> SavedIncarnation | None:
    """What the first log directory remembers; None if nothing, or nothing that can be read.

    What cannot be read vouches for nothing: the broker then comes as one that is not intact.
    """
    path = f"{log_directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        saved: SavedIncarnation = _FORM.read(parse(read_file(files, path, _FILE_BYTES_MAX)))
    except Misfit:
        return None
    return saved


def write_incarnation(files: Files, log_directory: str, saved: SavedIncarnation) -> None:
    """Durable on return."""
    replace_file(files, f"{log_directory}/{FILE_NAME}", dump(_FORM.write(saved)))
