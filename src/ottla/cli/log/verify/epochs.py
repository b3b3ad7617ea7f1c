"""Compares the leader epoch checkpoint with the epochs in the batches."""

from ottla.cli.log.verify.damage import Damage, Effect, Remedy, ShutdownState
from ottla.errors import CorruptLog
from ottla.protocol.batch import BatchHeader
from ottla.seams.files import Files, read_file
from ottla.storage.log import leader_epochs
from ottla.storage.log.leader_epochs import LeaderEpochs


class EpochCheck:
    """Takes every batch in order. `damage` is the first contradiction."""

    def __init__(self, files: Files, directory: str, shutdown: ShutdownState) -> None:
        self._path = f"{directory}/{leader_epochs.FILE_NAME}"
        self._shutdown = shutdown
        self.damage: Damage | None = None
        self._listed = self._read(files)

    def add(self, header: BatchHeader) -> None:
        offset, epoch = header.base_offset, header.partition_leader_epoch
        # The checkpoint has no epochs below the log's start, and untrusted ones are rebuilt.
        if offset < self._shutdown.start_offset or not self._shutdown.is_trusted(offset):
            return
        if self.damage is not None:
            return
        if self._listed is None:
            missing = CorruptLog(self._path, 0, "the file is missing")
            self.damage = Damage.of(missing, Effect.REBUILDS, Remedy.REWRITE_EPOCHS)
        elif (listed := self._listed.epoch_at(offset)) != epoch:
            self.damage = Damage(
                path=self._path,
                position=0,
                what=f"offset {offset} has epoch {listed} in the checkpoint, {epoch} in its batch",
                offset=offset,
                below_recovery_point=self._shutdown.is_flushed(offset),
                effect=Effect.DIVERGES,
                remedy=Remedy.REWRITE_EPOCHS,
            )

    def _read(self, files: Files) -> LeaderEpochs | None:
        try:
            return LeaderEpochs.decode(read_file(files, self._path), self._path)
        except FileNotFoundError:
            return None
        except CorruptLog as damage:
            self.damage = Damage.of(damage, Effect.REBUILDS, Remedy.REWRITE_EPOCHS)
            return None
