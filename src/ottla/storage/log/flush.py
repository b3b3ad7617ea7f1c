"""One flush of a log, as an object that a thread can run."""

from dataclasses import dataclass
from typing import NamedTuple

from ottla.seams.files import Files, sync_file
from ottla.storage.log.leader_epoch_file import EpochSave
from ottla.storage.log.segment import Unsynced


class FirstSync(NamedTuple):
    """The small files and directories that a log's first flush must sync besides its own files."""

    small_files: tuple[str, ...]
    directories: tuple[str, ...]

    def sync(self, files: Files) -> None:
        for path in self.small_files:
            sync_file(files, path)
        for path in self.directories:
            files.sync_dir(path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flush:
    """The syncs that must succeed, in this order, before the recovery point is `end_offset`.

    `run` changes no memory, so a thread may call it.
    """

    files: Files
    directory: str
    end_offset: int
    truncations: int
    messages: int
    epochs: EpochSave | None
    unsynced: tuple[Unsynced, ...]
    has_new_names: bool
    first_sync: FirstSync | None

    def run(self) -> None:
        """OSError if the disk failed. NoRoomForEpochs if it is full; nothing was done then."""
        if self.epochs is not None:
            self.epochs.run()
        for item in self.unsynced:
            item.file.sync()
        if self.has_new_names:
            self.files.sync_dir(self.directory)
        if self.first_sync is not None:
            self.first_sync.sync(self.files)
