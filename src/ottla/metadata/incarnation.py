"""The broker's previous incarnation, saved on disk: it decides whether ISR memberships carry over.

A broker that lost acknowledged records must not rejoin the ISR as if it had them. Its disks are
intact if it stopped cleanly, or if the machine was not rebooted since: the writes of a killed
process are still in the page cache.

At a start: read it, compute `inherited_epochs`, register, save the new epoch as unserved, let the
memberships carry over, and save the new incarnation before anything is served. At a clean stop,
after the last flush: save it again as clean.

A membership carries over only if its epoch is exactly one of the saved epochs. A disk that was
restored from a backup has an outdated epoch and claims nothing.
"""

from dataclasses import dataclass, field, replace

from ottla.metadata.json_codec import ADDED_LATER, JsonMismatch, dump, object_codec, parse
from ottla.metadata.values import Int64, Name
from ottla.seams.files import Files, read_file, replace_file

FILE_NAME = "incarnation.json"

_FILE_BYTES_MAX = 64 << 10
# The most consecutive starts that ended before they served.
UNSERVED_EPOCHS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class SavedIncarnation:
    """The epoch in which a broker last served, with the machine's boot id; `clean` after a stop.

    `unserved` are later epochs in which it registered and ended before it served anything.
    """

    broker_epoch: Int64
    boot_id: Name
    clean: bool
    unserved: tuple[Int64, ...] = field(default=(), metadata=ADDED_LATER)


_CODEC = object_codec(SavedIncarnation)


def is_intact(previous: SavedIncarnation, boot_id: str) -> bool:
    """Whether everything that the previous incarnation wrote still exists."""
    return previous.clean or previous.boot_id == boot_id


def inherited_epochs(previous: SavedIncarnation | None, boot_id: str) -> tuple[int, ...]:
    """The epochs whose memberships a starting broker may claim, the last served one first."""
    if previous is None or not is_intact(previous, boot_id):
        return ()
    return (previous.broker_epoch, *previous.unserved)


def with_unserved(previous: SavedIncarnation, broker_epoch: int) -> SavedIncarnation:
    """To be saved before a new epoch takes over the first membership."""
    unserved = (*previous.unserved, broker_epoch)[-UNSERVED_EPOCHS_MAX:]
    return replace(previous, unserved=unserved)


def read_incarnation(files: Files, log_directory: str) -> SavedIncarnation | None:
    """The incarnation saved in a log directory; None if it is missing or cannot be read.

    The broker then counts as not intact.
    """
    path = f"{log_directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        saved: SavedIncarnation = _CODEC.read(parse(read_file(files, path, _FILE_BYTES_MAX)))
    except JsonMismatch:
        return None
    return saved


def write_incarnation(files: Files, log_directory: str, saved: SavedIncarnation) -> None:
    """Durable on return."""
    replace_file(files, f"{log_directory}/{FILE_NAME}", dump(_CODEC.write(saved)))
