"""The file with a log's leader epochs: it may lag behind the log, but not behind a flush."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ottla.seams.files import Files, replace_file
from ottla.seams.mutex import new_mutex
from ottla.storage.directory.full_disk import FULL
from ottla.storage.log.leader_epochs import FILE_NAME, LeaderEpochs


class NoRoomForEpochs(OSError):
    """The disk is full. Nothing was changed, so the flush may be tried again."""


@dataclass(slots=True)
class EpochPlace:
    """Where the epochs of a log are saved, which the loop and a thread may want to do at a time."""

    files: Files
    path: str
    # The number of the newest save that is durable.
    written: int = 0
    # Another log may have this path by now.
    is_abandoned: bool = False
    mutex: AbstractContextManager[object] = field(default_factory=new_mutex)


@dataclass(frozen=True, slots=True)
class EpochSave:
    """Epochs on their way to the file. `run` changes nothing else: it may be done in a thread."""

    place: EpochPlace
    number: int
    epoch: int
    content: bytes

    def run(self) -> None:
        """Durable on return, unless a later save was. OSError, NoRoomForEpochs."""
        place = self.place
        with place.mutex:
            if self.number < place.written or place.is_abandoned:
                return
            try:
                replace_file(place.files, place.path, self.content)
            except OSError as error:
                if error.errno in FULL:
                    raise NoRoomForEpochs(error.errno, error.strerror, place.path) from error
                raise
            place.written = self.number


class EpochFile:
    """Saves the epochs of one log. Until it has, opening the log finds them in the batches."""

    __slots__ = ("_begun", "_epochs", "_place", "_saved", "written")

    def __init__(self, files: Files, directory: str, epochs: LeaderEpochs, saved: int) -> None:
        """`saved` is the newest epoch that the file is known to have durably."""
        self._place = EpochPlace(files, f"{directory}/{FILE_NAME}")
        self._begun = 0
        self._epochs = epochs
        self._saved = saved
        # The newest that has a batch.
        self.written = epochs.latest_epoch

    def begin(self, epoch: int, offset: int) -> None:
        """The first batch of an epoch lies at `offset`."""
        self.written = epoch
        self._epochs.assign(epoch, offset)

    def cut(self, end_offset: int) -> None:
        """Nothing at or after `end_offset` is in the log any more, durably.

        An epoch without a batch goes from memory alone: the file never had it.
        """
        self._epochs.truncate_end(end_offset)
        if self._epochs.latest_epoch < self.written:
            self.written = self._epochs.latest_epoch
            save = self._begin_save()
            save.run()
            self.end_save(save)

    def begin_save_if_new(self) -> EpochSave | None:
        """Once it has run every epoch that has a batch is in the file; None if all are."""
        return self._begin_save() if self.written > self._saved else None

    def end_save(self, save: EpochSave) -> None:
        """The save has run. One that came later knows better."""
        if save.number == self._begun:
            self._saved = save.epoch

    def abandon(self) -> None:
        """Nothing is saved from now on, also by what was begun: the log has no place any more."""
        with self._place.mutex:
            self._place.is_abandoned = True

    def _begin_save(self) -> EpochSave:
        self._begun += 1
        # An epoch without a batch stays out: another leader may write at its offset.
        content = self._epochs.encode(epoch_max=self.written)
        return EpochSave(self._place, self._begun, self.written, content)
