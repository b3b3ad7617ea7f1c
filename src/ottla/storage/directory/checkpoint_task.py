"""One checkpoint of a log directory, apart from the directory, so that a thread can run it."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.files import Files
from ottla.seams.mutex import new_mutex
from ottla.storage.directory import checkpoint_files
from ottla.storage.log.flush import Around

if TYPE_CHECKING:
    from ottla.storage.log.log import Log

Offsets = Mapping[TopicPartition, int]


@dataclass(slots=True)
class CheckpointFiles:
    """A directory's checkpoint files, which the loop and a thread may want to write at a time."""

    files: Files
    path: str
    # The number of the newest checkpoint that is durable.
    written: int = 0
    mutex: AbstractContextManager[object] = field(default_factory=new_mutex)


class PlannedStart(NamedTuple):
    """Where a log shall start once the checkpoint is durable, unless it is truncated before."""

    log: "Log"
    offset: int
    truncations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """What a directory's logs were like when it was begun, and the starts that are planned.

    `run` changes nothing but the files, so it may be done in a thread.
    """

    place: CheckpointFiles
    number: int
    start_offsets: Offsets
    recovery_points: Offsets
    # None if the file says the same.
    cleaned_offsets: Offsets | None
    # Whether partitions were renamed away that it no longer names.
    has_renames: bool
    arounds: tuple[Around, ...]
    starts: tuple[PlannedStart, ...]

    def run(self) -> None:
        """Durable on return. OSError."""
        place = self.place
        with place.mutex:
            if self.number < place.written:
                return  # a later one has said all of this, and what happened since
            if self.has_renames:
                place.files.sync_dir(place.path)
            # Else a power loss might leave less of a log than what is said of it here.
            for around in self.arounds:
                around.sync(place.files)
            # The start goes first: a recovery point never lies before it.
            self._write(checkpoint_files.LOG_START_OFFSETS, self.start_offsets)
            self._write(checkpoint_files.RECOVERY_POINTS, self.recovery_points)
            if self.cleaned_offsets is not None:
                self._write(checkpoint_files.CLEANER_OFFSETS, self.cleaned_offsets)
            place.written = self.number

    def _write(self, name: str, offsets: Offsets) -> None:
        checkpoint_files.write_offsets(self.place.files, f"{self.place.path}/{name}", offsets)
