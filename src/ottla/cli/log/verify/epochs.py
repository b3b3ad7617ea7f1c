"""The leader epochs of the checkpoint, held against those in the batches."""

from ottla.cli.log.verify.damage import Damage, Effect, LeftAs, Remedy
from ottla.errors import CorruptLog
from ottla.protocol.batch import BatchHeader
from ottla.seams.files import Files, read_file
from ottla.storage.log import leader_epochs
from ottla.storage.log.leader_epochs import LeaderEpochs


class EpochCheck:
    """Is shown every batch, in order. One contradiction is enough: `damage` then says which."""

    def __init__(self, files: Files, directory: str, left: LeftAs) -> None:
        self._path = f"{directory}/{leader_epochs.FILE_NAME}"
        self._left = left
        self.damage: Damage | None = None
        self._listed = self._read(files)

    def see(self, header: BatchHeader) -> None:
        offset, epoch = header.base_offset, header.partition_leader_epoch
        # Below the start nothing is kept; what is not trusted is entered anew at the start.
        if offset < self._left.start_offset or not self._left.is_trusted(offset):
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
                what=f"offset {offset} is listed as of epoch {listed}, its batch is of {epoch}",
                offset=offset,
                below_recovery_point=self._left.is_flushed(offset),
                effect=Effect.PARTS_WRONGLY,
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
