"""The file with a log's leader epochs: it may lag behind the log, but not behind a flush."""

from ottla.seams.files import Files, replace_file
from ottla.storage.epochs import FILE_NAME, LeaderEpochs


class EpochFile:
    """Saves the epochs of one log. Until it has, opening the log finds them in the batches."""

    __slots__ = ("_epochs", "_files", "_path", "_saved", "written")

    def __init__(self, files: Files, directory: str, epochs: LeaderEpochs, saved: int) -> None:
        """`saved` is the newest epoch that the file is known to have durably."""
        self._files = files
        self._path = f"{directory}/{FILE_NAME}"
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
            self._save()

    def save_if_new(self) -> None:
        """Every epoch that has a batch is durably in the file on return."""
        if self.written > self._saved:
            self._save()

    def _save(self) -> None:
        # An epoch without a batch stays out: another leader may write at its offset.
        replace_file(self._files, self._path, self._epochs.encode(epoch_max=self.written))
        self._saved = self.written
