"""One flush of a log, apart from the log, so that a thread can run it."""

from dataclasses import dataclass
from typing import NamedTuple

from ottla.seams.files import Files, sync_file
from ottla.storage.log.leader_epoch_file import EpochSave
from ottla.storage.log.segment import Unsynced


class Around(NamedTuple):
    """What is not durable around a log that was never flushed: small files, and then names."""

    small_files: tuple[str, ...]
    directories: tuple[str, ...]

    def sync(self, files: Files) -> None:
        for path in self.small_files:
            sync_file(files, path)
        for path in self.directories:
            files.sync_dir(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """What must be made durable, in this order, before the recovery point may be `end_offset`.

    `run` changes nothing, so it may be done in a thread.
    """

    files: Files
    directory: str
    end_offset: int
    truncations: int
    messages: int
    epochs: EpochSave | None
    unsynced: tuple[Unsynced, ...]
    has_new_names: bool
    around: Around | None

    def run(self) -> None:
        """OSError if the disk failed; NoRoomForEpochs if it is full, and nothing was done."""
        if self.epochs is not None:
            self.epochs.run()
        for item in self.unsynced:
            item.file.sync()
        if self.has_new_names:
            self.files.sync_dir(self.directory)
        if self.around is not None:
            self.around.sync(self.files)
