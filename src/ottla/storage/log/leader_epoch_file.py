"""The leader-epoch-checkpoint of a log. A flush saves new epochs before the recovery point."""

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from ottla.seams.files import Files, replace_file
from ottla.seams.mutex import new_mutex
from ottla.storage.directory.full_disk import FULL
from ottla.storage.log.leader_epochs import FILE_NAME, EpochEntry, LeaderEpochs


class NoRoomForEpochs(OSError):
    """The disk is full. Nothing was changed, so the flush may be repeated."""


@dataclass(slots=True)
class EpochPlace:
    """The file of a log's epochs. The loop and a thread take turns by the mutex."""

    files: Files
    path: str
    # The number of the newest save that is durable.
    written: int = 0
    # Another log may have this path by now.
    is_abandoned: bool = False
    mutex: AbstractContextManager[object] = field(default_factory=new_mutex)


@dataclass(frozen=True, slots=True)
class EpochSave:
    """One save of the epochs. `run` writes the file and nothing else, so a thread may call it."""

    place: EpochPlace
    number: int
    epoch: int
    content: bytes

    def run(self) -> None:
        """Replaces the file durably, unless a later save did. OSError, NoRoomForEpochs."""
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
    """Saves the epochs of one log. Unsaved epochs are found in the batches at recovery."""

    __slots__ = ("_begun", "_epochs", "_place", "_saved", "written")

    def __init__(self, files: Files, directory: str, epochs: LeaderEpochs, saved: int) -> None:
        """`saved` is the newest epoch that is durable in the file."""
        self._place = EpochPlace(files, f"{directory}/{FILE_NAME}")
        self._begun = 0
        self._epochs = epochs
        self._saved = saved
        # The newest epoch that has a batch.
        self.written = epochs.latest_epoch

    def begin(self, epoch: int, offset: int) -> None:
        """The first batch of an epoch lies at `offset`."""
        self.written = epoch
        self._epochs.assign(epoch, offset)

    def cut(self, end_offset: int) -> None:
        """Removes the epochs at or after `end_offset`, durably.

        An epoch without a batch is removed from memory only: the file never had it.
        """
        self._epochs.truncate_end(end_offset)
        if self._epochs.latest_epoch < self.written:
            self.written = self._epochs.latest_epoch
            save = self._begin_save()
            save.run()
            self.end_save(save)

    def begin_save_if_new(self) -> EpochSave | None:
        """A save of all epochs that have a batch; None if the file has them."""
        return self._begin_save() if self.written > self._saved else None

    def end_save(self, save: EpochSave) -> None:
        """The save has run. Ignored if a later one has begun."""
        if save.number == self._begun:
            self._saved = save.epoch

    def adopt(self, entries: Iterable[EpochEntry], written: int) -> None:
        """Takes over the epochs of the log of which this one is a copy. The next flush saves them.

        `written` is the newest of them that has a batch.
        """
        self._epochs.truncate_end(0)
        for epoch, start_offset in entries:
            self._epochs.assign(epoch, start_offset)
        self.written = written
        self._saved = -1

    def renamed(self, directory: str) -> None:
        """The directory of the log has a new path. No save is under way."""
        with self._place.mutex:
            self._place.path = f"{directory}/{FILE_NAME}"

    def abandon(self) -> None:
        """No save writes from now on, not even one that has begun: the log is closed or deleted."""
        with self._place.mutex:
            self._place.is_abandoned = True

    def _begin_save(self) -> EpochSave:
        self._begun += 1
        # An epoch without a batch is left out: another leader may write at its offset.
        content = self._epochs.encode(epoch_max=self.written)
        return EpochSave(self._place, self._begun, self.written, content)
