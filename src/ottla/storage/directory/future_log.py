"""The copy of a log in another log directory, and its swap for the original. Awaits nothing.

The copy is in `topic-partition.<unique>-future`, as in Kafka. Its records are taken from the
original, slice by slice, as a follower takes them from its leader. Once it has all of them, it is
renamed to the partition's name: from then on it is the log in use (`move_mark`). This rename is
durable before the original is removed.

A process that dies leaves an unfinished copy. The next start removes it and begins it anew.
"""

from ottla.errors import StorageError
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.files import Buffer, Files
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.directory import (
    DELETE_SUFFIX,
    FUTURE_SUFFIX,
    STRAY_SUFFIX,
    LogDirectory,
    name_aside,
)
from ottla.storage.directory.move_mark import mark_path, remove_move_mark, write_move_mark
from ottla.storage.log.file_slice import FileSlice
from ottla.storage.log.flush import FirstSync
from ottla.storage.log.log import Log
from ottla.storage.opening.recovery import open_log

# In the names of originals that a start removes: no other name of this partition is there.
UNIQUE = "0" * 32


class FutureLog:
    """Begins a copy of `source` in the directory `target`. OSError, StorageError."""

    def __init__(
        self,
        partition: TopicPartition,
        topic_id: Uuid,
        source: Log,
        origin: LogDirectory,
        target: LogDirectory,
        unique: str,
    ) -> None:
        if target.offline is not None:
            raise StorageError(f"{target.path} is offline")
        self.partition = partition
        self.source = source
        self.target = target
        self._topic_id = topic_id
        self._origin = origin
        self._unique = unique
        self._truncations = source.truncations
        self.path = f"{target.path}/{name_aside(partition, 0, f'.{unique}{FUTURE_SUFFIX}')}"
        # The start offset that the last checkpoint of the target has.
        self.saved_start: int | None = None
        self.log = self._create(source)
        target.copies[partition] = self.log
        source.is_moving = True

    def _create(self, source: Log) -> Log:
        files, path = self.target.files, self.path
        files.make_dir(path)
        try:
            write_move_mark(files, path, str(self.partition))
            checkpoint_files.write_partition_metadata(files, path, self._topic_id)
            log = open_log(
                self.target.pool,
                path,
                source.config,
                is_clean=True,
                start_offset=source.start_offset,
                clock=self.target.clock,
                # No checkpoint names the copy before it is in use.
                checkpoint=lambda: None,
            ).log
        except OSError:
            self.target.pool.forget_below(path)
            self.target.purge(path)
            raise
        # Nothing of it is durable yet.
        log.recovery_point = 0
        log.first_sync = FirstSync(
            (mark_path(path), f"{path}/{checkpoint_files.PARTITION_METADATA}"),
            (path, self.target.path),
        )
        return log

    # Copying

    @property
    def is_void(self) -> bool:
        """Whether the copy must be begun anew: the original was truncated, or a log is offline."""
        return (
            self.source.truncations != self._truncations
            or self.source.offline is not None
            or self.log.offline is not None
        )

    @property
    def lag(self) -> int:
        """The number of offsets that the copy lacks."""
        return max(0, self.source.end_offset - self.log.end_offset)

    def next_slice(self, bytes_max: int) -> FileSlice | None:
        """The next records to copy; None if the copy has all. LogOffline, OSError."""
        source, log = self.source, self.log
        if log.end_offset < source.start_offset:
            # Retention or DeleteRecords has removed what was to be copied next.
            log.restart_at(source.start_offset)
        return source.read(log.end_offset, bytes_max=bytes_max)

    def take(self, records: Buffer) -> None:
        """Appends what a slice has. PeerError if the original is damaged, LogOffline, OSError."""
        before = self.log.end_offset
        self.log.append_replicated(records)
        if self.log.end_offset == before:
            raise StorageError(f"{self.source.directory}: no whole batch at offset {before}")

    # Swapping

    def prepare(self) -> None:
        """Takes over what is not in the records. A flush and a checkpoint are to follow."""
        self.log.take_over(self.source)

    @property
    def is_ready(self) -> bool:
        """Whether the copy has all that the original has, and is as durable."""
        source, log = self.source, self.log
        return (
            not self.is_void
            and log.end_offset == source.end_offset
            and log.recovery_point >= source.recovery_point
            and self.saved_start == log.start_offset == source.start_offset
            and source.planned_start is None
            and log.epochs == source.epochs
            and log.first_sync is None
        )

    def swap(self) -> Log:
        """Puts the copy in the place of the original, which is closed. Returns the copy.

        OSError: nothing has changed. `finish` must follow, or the next start does it.
        """
        path = self.target.partition_path(self.partition)
        self.target.files.rename(self.path, path)
        log, source = self.log, self.source
        # The records that the copy has do not tell of producers whose records were deleted.
        log.producers = source.producers
        log.renamed(path, self.target.checkpoint)
        log.writeback.start = source.writeback.start
        self._origin.release(self.partition)
        self._origin.leaving.add(self.partition)
        self.target.adopt(self.partition, self._topic_id, log)
        return log

    def confirm(self) -> None:
        """Makes the swap durable. A thread may call this. OSError."""
        self.target.files.sync_dir(self.target.path)

    def remove_original(self) -> str:
        """The swap is durable: renames the original, durable with the next checkpoint.

        Returns its path, for `purge`. OSError, StorageError.
        """
        (left,) = self._origin.begin_delete((self.partition,), self._unique)
        return left

    def finish(self) -> None:
        """The original is removed durably. A thread may call this. OSError."""
        remove_move_mark(self.target.files, self.target.partition_path(self.partition))

    def give_up(self) -> str:
        """Ends the copy. Returns its path, for `purge`."""
        self.source.is_moving = False
        self.target.drop_copy(self.partition)
        return self.path


def settle_swaps(files: Files, directories: list[LogDirectory]) -> None:
    """Finishes the swaps that a crash has interrupted. Called when all directories are loaded.

    The original is removed, or set aside if the copy cannot be opened.
    """
    for directory in directories:
        for partition in directory.moved_here():
            others = [each for each in directories if each is not directory]
            topic_id = directory.topic_ids.get(partition)
            for other in others:
                if other.holds(partition) and other.topic_ids.get(partition) in (None, topic_id):
                    _remove(other, partition, is_safe=partition in directory.logs)
            if all(each.offline is None for each in others):
                try:
                    remove_move_mark(files, directory.partition_path(partition))
                except OSError as error:
                    directory.fail_unless_full(error)


def _remove(directory: LogDirectory, partition: TopicPartition, *, is_safe: bool) -> None:
    try:
        directory.delete((partition,), UNIQUE, DELETE_SUFFIX if is_safe else STRAY_SUFFIX)
    except (OSError, StorageError) as error:
        directory.release(partition)
        directory.fail(error)
