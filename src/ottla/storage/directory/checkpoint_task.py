"""One checkpoint of a log directory, as an object that a thread can run."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.files import Files
from ottla.seams.mutex import new_mutex
from ottla.storage.directory import checkpoint_files
from ottla.storage.log.flush import FirstSync

if TYPE_CHECKING:
    from ottla.storage.log.log import Log

Offsets = Mapping[TopicPartition, int]


@dataclass(slots=True)
class CheckpointFiles:
    """The checkpoint files of a directory. The loop and a thread take turns by the mutex."""

    files: Files
    path: str
    # The number of the newest checkpoint that is durable.
    written: int = 0
    mutex: AbstractContextManager[object] = field(default_factory=new_mutex)


class PlannedStart(NamedTuple):
    """A log start offset that is in force once the checkpoint is durable.

    It is void if the log was truncated since (`truncations`).
    """

    log: "Log"
    offset: int
    truncations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """The offsets of all logs of a directory as of its beginning, planned start offsets included.

    `run` writes files and changes nothing else, so a thread may call it.
    """

    place: CheckpointFiles
    number: int
    start_offsets: Offsets
    recovery_points: Offsets
    # None if the file has the same offsets.
    cleaned_offsets: Offsets | None
    high_watermarks: Offsets | None
    # Whether deleted partitions were renamed since the last checkpoint.
    has_renames: bool
    first_syncs: tuple[FirstSync, ...]
    starts: tuple[PlannedStart, ...]

    def run(self) -> None:
        """Durable on return. OSError."""
        place = self.place
        with place.mutex:
            if self.number < place.written:
                return  # a later checkpoint is durable already
            if self.has_renames:
                place.files.sync_dir(place.path)
            # A power loss must not leave a checkpoint of a log that is gone.
            for first_sync in self.first_syncs:
                first_sync.sync(place.files)
            # Start offsets first: a recovery point never lies below the log start offset.
            self._write(checkpoint_files.LOG_START_OFFSETS, self.start_offsets)
            self._write(checkpoint_files.RECOVERY_POINTS, self.recovery_points)
            if self.cleaned_offsets is not None:
                self._write(checkpoint_files.CLEANER_OFFSETS, self.cleaned_offsets)
            if self.high_watermarks is not None:
                self._write(checkpoint_files.HIGH_WATERMARKS, self.high_watermarks)
            place.written = self.number

    def _write(self, name: str, offsets: Offsets) -> None:
        checkpoint_files.write_offsets(self.place.files, f"{self.place.path}/{name}", offsets)


@dataclass(frozen=True, slots=True)
class HighWatermarkCheckpoint:
    """The high watermarks of all logs of a directory, which are saved more often than the rest.

    `run` writes one file and changes nothing else, so a thread may call it.
    """

    place: CheckpointFiles
    number: int
    high_watermarks: Offsets

    def run(self) -> None:
        """Durable on return. OSError."""
        place = self.place
        with place.mutex:
            if self.number < place.written:
                return  # a log may have been truncated since
            path = f"{place.path}/{checkpoint_files.HIGH_WATERMARKS}"
            checkpoint_files.write_offsets(place.files, path, self.high_watermarks)
