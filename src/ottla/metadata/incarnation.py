"""The broker's previous incarnation, saved on disk: it decides whether ISR memberships carry over.

A broker that lost acknowledged records must not rejoin the ISR as if it had them. Its disks are
intact if it stopped cleanly, or if the machine was not rebooted since: the writes of a killed
process are still in the page cache. Single logs may be damaged nevertheless.

At a start, after the recovery of all logs: `starting` is saved, then the broker registers. Once it
is up, and before it serves anything, `serving` is saved. At a clean stop, after the last flush, it
is saved again as clean.

Incarnations have random ids, which the controller compares for equality. A disk that was restored
from a backup has an outdated id and claims nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.metadata.json_codec import ADDED_LATER, JsonMismatch, dump, object_codec, parse
from ottla.metadata.values import Int64, Name, PartitionId
from ottla.seams.files import Files, read_file, replace_file

FILE_NAME = "incarnation.json"

_FILE_BYTES_MAX = 1 << 20
# The most consecutive starts that ended before they served.
UNSERVED_MAX = 1_000
# A broker with more damaged logs is not intact.
DAMAGED_MAX = 1_000

_EPOCH_PREFIX = "epoch-"


@dataclass(frozen=True, slots=True)
class SavedIncarnation:
    """The incarnation that last served, with the machine's boot id; `clean` after a stop.

    `unserved` are later incarnations that ended before they served anything. `damaged` are logs
    that lost records, which these may not have told the controller. `former` are incarnations from
    which nothing is inherited, but which may still be registered.
    """

    incarnation_id: Name
    boot_id: Name
    clean: bool
    unserved: tuple[Name, ...] = field(default=(), metadata=ADDED_LATER)
    damaged: tuple[PartitionId, ...] = field(default=(), metadata=ADDED_LATER)
    former: tuple[Name, ...] = field(default=(), metadata=ADDED_LATER)

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of these incarnations, the last that served first."""
        return (self.incarnation_id, *self.unserved)

    @property
    def replaced_ids(self) -> tuple[str, ...]:
        """The ids of all incarnations of this data directory that may still be registered."""
        return (*self.ids, *self.former)


@dataclass(frozen=True, slots=True)
class _EpochIncarnation:
    """The file of earlier versions, which knew incarnations by their broker epochs."""

    broker_epoch: Int64
    boot_id: Name
    clean: bool
    unserved: tuple[Int64, ...] = field(default=(), metadata=ADDED_LATER)


_CODEC = object_codec(SavedIncarnation)
_EPOCH_CODEC = object_codec(_EpochIncarnation)


def id_of_epoch(broker_epoch: int) -> str:
    """The id of an incarnation of an earlier version, which had none."""
    return f"{_EPOCH_PREFIX}{broker_epoch}"


def epoch_of_id(incarnation_id: str) -> int | None:
    """The broker epoch in the id of an incarnation of an earlier version; None in any other id."""
    number = incarnation_id.removeprefix(_EPOCH_PREFIX)
    is_epoch = number != incarnation_id and number.isdecimal() and number.isascii()
    return int(number) if is_epoch else None


def is_intact(previous: SavedIncarnation, boot_id: str) -> bool:
    """Whether everything that the previous incarnation wrote still exists."""
    return previous.clean or previous.boot_id == boot_id


def inherited_ids(previous: SavedIncarnation | None, boot_id: str) -> tuple[str, ...]:
    """The incarnations whose memberships a starting broker may claim, the last served one first."""
    if previous is None or not is_intact(previous, boot_id) or len(previous.damaged) > DAMAGED_MAX:
        return ()
    return previous.ids


def starting(
    previous: SavedIncarnation | None,
    incarnation_id: str,
    boot_id: str,
    damaged: Iterable[PartitionId] = (),
) -> SavedIncarnation:
    """To be saved before the incarnation registers. `damaged` is what its recovery has found.

    The same if the incarnation has lost its session, and registers once more.
    """
    if previous is None or not is_intact(previous, boot_id):
        former = () if previous is None else (*previous.former, *previous.ids)[-UNSERVED_MAX:]
        return SavedIncarnation(incarnation_id, boot_id, clean=False, former=former)
    own = () if incarnation_id in previous.ids else (incarnation_id,)
    return SavedIncarnation(
        previous.incarnation_id,
        previous.boot_id,
        previous.clean,
        (*previous.unserved, *own)[-UNSERVED_MAX:],
        # One more than the limit is enough to say that there are too many.
        tuple(dict.fromkeys((*previous.damaged, *damaged)))[: DAMAGED_MAX + 1],
        previous.former,
    )


def serving(incarnation_id: str, boot_id: str, *, clean: bool) -> SavedIncarnation:
    """To be saved before the broker serves, and at a clean stop."""
    return SavedIncarnation(incarnation_id, boot_id, clean)


def read_incarnation(files: Files, log_directory: str) -> SavedIncarnation | None:
    """The incarnation saved in a log directory; None if it is missing or cannot be read.

    The broker then counts as not intact.
    """
    path = f"{log_directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        found = parse(read_file(files, path, _FILE_BYTES_MAX))
        if isinstance(found, dict) and "broker_epoch" in found:
            return _converted(_EPOCH_CODEC.read(found))
        saved: SavedIncarnation = _CODEC.read(found)
    except JsonMismatch:
        return None
    return saved


def write_incarnation(files: Files, log_directory: str, saved: SavedIncarnation) -> None:
    """Durable on return."""
    replace_file(files, f"{log_directory}/{FILE_NAME}", dump(_CODEC.write(saved)))


def _converted(earlier: _EpochIncarnation) -> SavedIncarnation:
    return SavedIncarnation(
        id_of_epoch(earlier.broker_epoch),
        earlier.boot_id,
        earlier.clean,
        tuple(map(id_of_epoch, earlier.unserved)),
    )
