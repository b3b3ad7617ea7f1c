"""The broker's last life, as its disk remembers it: what decides whether memberships carry over.

A broker that lost what it had acknowledged must not come back as if it had not. Its disks are
intact if it stopped cleanly, or if the machine has not been restarted since: then a killed
process's writes are still in the page cache.

At a start: read, `inherited_epochs`, register, write the new epoch down as one that has not served,
let the memberships carry over, and write the new incarnation before anything is served. At a clean
stop, after the last flush: write it again, clean.

A membership carries over only if it is of exactly one of the epochs that are written down. A disk
that was restored from a backup names an epoch that is long over, and claims nothing.
"""

from dataclasses import dataclass, field, replace

from ottla.metadata.json_codec import ADDED_LATER, Misfit, dump, object_form, parse
from ottla.metadata.values import Int64, Name
from ottla.seams.files import Files, read_file, replace_file

FILE_NAME = "incarnation.json"

_FILE_BYTES_MAX = 64 << 10
# Starts in a row that ended before they served.
UNSERVED_MAX = 1_000


@dataclass(frozen=True, slots=True)
class SavedIncarnation:
    """The epoch under which a broker last served, on which run of the machine, and its end.

    `unserved` are later epochs under which it was registered, and ended before it served anything.
    """

    broker_epoch: Int64
    boot_id: Name
    clean: bool
    unserved: tuple[Int64, ...] = field(default=(), metadata=ADDED_LATER)


_FORM = object_form(SavedIncarnation)


def is_intact(previous: SavedIncarnation, boot_id: str) -> bool:
    """Whether all that the previous incarnation wrote is still there."""
    return previous.clean or previous.boot_id == boot_id


def inherited_epochs(previous: SavedIncarnation | None, boot_id: str) -> tuple[int, ...]:
    """Whose memberships a broker that starts now may claim; first the epoch that served last."""
    if previous is None or not is_intact(previous, boot_id):
        return ()
    return (previous.broker_epoch, *previous.unserved)


def with_unserved(previous: SavedIncarnation, broker_epoch: int) -> SavedIncarnation:
    """What the disk must remember before a new epoch takes over the first membership."""
    unserved = (*previous.unserved, broker_epoch)[-UNSERVED_MAX:]
    return replace(previous, unserved=unserved)


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
