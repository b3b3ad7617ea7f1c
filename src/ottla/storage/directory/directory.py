"""One log directory (`log.dirs`): loads, creates, deletes and checkpoints its logs.

A log that cannot be opened, or that meets a disk fault, is offline alone. A fault of the directory
itself takes all of its logs offline, and those of no other directory.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from ottla.errors import CorruptLog, StorageError
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import Clock
from ottla.seams.files import Files, Lock
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.checkpoint_files import MetaProperties
from ottla.storage.directory.checkpoint_task import Checkpoint, HighWatermarkCheckpoint
from ottla.storage.directory.full_disk import FULL
from ottla.storage.directory.move_mark import mark_path, read_move_mark
from ottla.storage.directory.offset_checkpoints import HighWatermarkOf, OffsetCheckpoints
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.flush import FirstSync
from ottla.storage.log.log import Log
from ottla.storage.opening.cut_mark import mark_cut, remove_cut_mark
from ottla.storage.opening.recovery import Opened, open_log
from ottla.storage.opening.tail_scan import Recovery
from ottla.storage.opening.unsynced_tail import mark_unsynced

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
# A log that is being copied from another log directory.
FUTURE_SUFFIX = "-future"
# The limit of file systems. The name of a topic may have 249 bytes.
NAME_BYTES_MAX = 255
# Directories of metadata logs look like partitions and are not.
METADATA_LOGS = frozenset({"__cluster_metadata", "__ottla_metadata"})

ConfigOf = Callable[[TopicPartition], LogConfig]


@dataclass(slots=True, kw_only=True)
class LogDirectory:
    """Opened by `open_directory`. `checkpoint` makes start offsets and recovery points durable."""

    files: Files
    path: str
    meta: MetaProperties
    config_of: ConfigOf
    clock: Clock
    lock: Lock
    pool: FilePool
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    topic_ids: dict[TopicPartition, Uuid] = field(default_factory=dict)
    # The errors of logs that could not be opened.
    unusable: dict[TopicPartition, Exception] = field(default_factory=dict)
    recoveries: dict[TopicPartition, Recovery] = field(default_factory=dict)
    # Copies of logs of other directories, which are to move here.
    copies: dict[TopicPartition, Log] = field(default_factory=dict)
    # Partitions that have moved to another directory, while their files are still here.
    leaving: set[TopicPartition] = field(default_factory=set)
    # The paths of unfinished copies that a start has found.
    unfinished_copies: dict[TopicPartition, str] = field(default_factory=dict)
    # The partitions of which the last checkpoint had flushed or committed records, and no log was
    # found.
    missing: frozenset[TopicPartition] = frozenset()
    offline: Exception | None = None
    # The placements file that names the logs of this directory, if it is in another one.
    placements_path: str | None = None
    # Set by the owner of the partitions.
    high_watermark_of: HighWatermarkOf = field(default=lambda _: None)
    _offsets: OffsetCheckpoints = field(init=False)

    def __post_init__(self) -> None:
        self._offsets = OffsetCheckpoints(self.files, self.path)

    @property
    def identity(self) -> str:
        """The directory id, or the path if an older version of Kafka wrote none."""
        return self.meta.directory_id or self.path

    def partition_path(self, partition: TopicPartition) -> str:
        return f"{self.path}/{partition}"

    def load(self, *, is_clean: bool) -> None:
        """Opens all logs of the directory in turn."""
        self._offsets.read()
        found = set()
        for name in self.files.list(self.path):
            partition = partition_of(name)
            if partition and self.files.is_dir(f"{self.path}/{name}"):
                found.add(partition)
                self._open(partition, is_clean=is_clean)
            elif name.endswith(DELETE_SUFFIX):
                self.purge(f"{self.path}/{name}")
            elif name.endswith(FUTURE_SUFFIX):
                self._find_copy(f"{self.path}/{name}")
        self.missing = self._offsets.forget_except(found)
        self.checkpoint()

    def _find_copy(self, path: str) -> None:
        """Notes an unfinished copy, which will be made anew. A second one is removed."""
        moved = read_move_mark(self.files, path)
        partition = None if moved is None else partition_of(moved)
        if partition is None or partition in self.unfinished_copies:
            self.purge(path)
        else:
            self.unfinished_copies[partition] = path

    def create(self, partition: TopicPartition, topic_id: Uuid, start_offset: int = 0) -> Log:
        """Creates an empty log at an offset. Its first flush makes its directory durable."""
        self._require_online()
        if not self._offsets.is_name_free(partition):
            self.checkpoint()
        path = self.partition_path(partition)
        self.files.make_dir(path)
        try:
            checkpoint_files.write_partition_metadata(self.files, path, topic_id)
            self._open(partition, is_clean=True, start_offset=start_offset)
            if error := self.unusable.pop(partition, None):
                raise error
        except OSError:
            # A full disk may have room later, so nothing stays behind.
            self.topic_ids.pop(partition, None)
            self.pool.forget_below(path)
            self.purge(path)
            raise
        log = self.logs[partition]
        # Nothing of it is durable, wherever it begins.
        log.recovery_point = 0
        return log

    def moved_here(self) -> list[TopicPartition]:
        """The partitions whose move to this directory was not finished."""
        return [
            partition
            for partition in sorted(self.logs.keys() | self.unusable.keys())
            if self.files.exists(mark_path(self.partition_path(partition)))
        ]

    def holds(self, partition: TopicPartition) -> bool:
        """Whether the partition is in this directory, usable or not."""
        return partition in self.logs or partition in self.unusable

    def write_topic_id(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """Writes partition.metadata for a log that lacks it. OSError if the disk refuses."""
        log = self.logs.get(partition)
        if log is not None and partition not in self.topic_ids:
            path = self.partition_path(partition)
            checkpoint_files.write_partition_metadata(self.files, path, topic_id)
            self.topic_ids[partition] = topic_id
            log.first_sync = self._first_sync(partition)

    def delete(
        self, partitions: Iterable[TopicPartition], unique: str, suffix: str = DELETE_SUFFIX
    ) -> list[str]:
        """Deletes partitions durably. Returns the paths of the renamed directories, for `purge`."""
        left = self.begin_delete(partitions, unique, suffix)
        self.forget_deleted()
        return left

    def begin_delete(
        self, partitions: Iterable[TopicPartition], unique: str, suffix: str = DELETE_SUFFIX
    ) -> list[str]:
        """As `delete`, but durable with the next checkpoint. Until then the names stay in use."""
        self._require_online()
        left = []
        for number, partition in enumerate(partitions):
            name = name_aside(partition, number, f".{unique}{suffix}")
            left.append(self._set_aside(partition, name))
            self._offsets.forget(partition)
        return left

    def forget_deleted(self) -> None:
        """Writes a checkpoint. A full disk is ignored: the deletion makes room for a later one."""
        try:
            self.checkpoint()
        except OSError as error:
            if error.errno not in FULL:
                raise

    def release(self, partition: TopicPartition) -> None:
        """Closes a log without a flush, and forgets it. Its files stay."""
        log = self.logs.pop(partition, None)
        if log:
            log.abandon()
        self.unusable.pop(partition, None)
        self.recoveries.pop(partition, None)
        self.topic_ids.pop(partition, None)

    def adopt(self, partition: TopicPartition, topic_id: Uuid, log: Log) -> None:
        """Takes a log that was copied here. Its first flush makes its new name durable."""
        del self.copies[partition]
        self.logs[partition] = log
        self.topic_ids[partition] = topic_id
        log.first_sync = self._first_sync(partition)

    def drop_copy(self, partition: TopicPartition) -> None:
        """A copy is given up. Its files stay."""
        log = self.copies.pop(partition, None)
        if log is not None:
            log.abandon()
            self._offsets.forget(partition)

    def _set_aside(self, partition: TopicPartition, name: str) -> str:
        self.release(partition)
        source = self.partition_path(partition)
        target = f"{self.path}/{name}"
        self.pool.forget_below(source)
        self.files.rename(source, target)
        self.leaving.discard(partition)
        return target

    def purge(self, path: str) -> None:
        """Removes a directory that `delete` renamed, or a file that `Log.drop_segments` renamed."""
        if not self.files.is_dir(path):
            if self.files.exists(path):
                self.files.remove(path)
            return
        for name in self.files.list(path):
            self.files.remove(f"{path}/{name}")
        self.files.remove_dir(path)

    def checkpoint(self) -> None:
        """Makes recovery points and start offsets of all logs durable, planned starts included."""
        self._require_online()
        # Without new high watermarks: they are not needed at once, and cost more syncs.
        checkpoint = self._offsets.begin(self.logs, copies=self.copies)
        try:
            checkpoint.run()
        except OSError as error:
            self.fail_unless_full(error)
            raise
        self.end_checkpoint(checkpoint)

    def begin_checkpoint(self) -> Checkpoint:
        """The next checkpoint, with high watermarks. A thread may call its `run`; then
        `end_checkpoint` follows, or `fail_unless_full` after an OSError. StorageError if the
        directory is offline."""
        self._require_online()
        return self._offsets.begin(self.logs, self.high_watermark_of, copies=self.copies)

    def end_checkpoint(self, checkpoint: Checkpoint) -> None:
        """The checkpoint has run: its planned starts are in force, forgotten names are free."""
        self._offsets.end(checkpoint)

    def begin_high_watermarks(self) -> HighWatermarkCheckpoint | None:
        """As `begin_checkpoint`, of high watermarks alone. None if none has moved."""
        self._require_online()
        return self._offsets.begin_high_watermarks(self.logs, self.high_watermark_of)

    def end_high_watermarks(self, checkpoint: HighWatermarkCheckpoint) -> None:
        self._offsets.end_high_watermarks(checkpoint)

    def close(self, *, broker_epoch: int) -> dict[str, Exception]:
        """Flushes and closes all logs, then writes the clean shutdown marker if none failed.

        Returns the errors by path.
        """
        self.check_in_place()
        try:
            if self.offline is None:
                self._close_logs()
                if not self.unusable:
                    checkpoint_files.write_clean_shutdown(self.files, self.path, broker_epoch)
        except (OSError, StorageError) as error:
            self.offline = error
        finally:
            if self.offline is not None:
                self.mark_logs_unsynced()
            self.lock.release()
        faults = {self.partition_path(name): error for name, error in self.unusable.items()}
        return faults if self.offline is None else {**faults, self.path: self.offline}

    def _close_logs(self) -> None:
        for partition, log in self.logs.items():
            if log.offline is not None:
                self.unusable[partition] = log.offline
                continue
            try:
                log.close()
            except (StorageError, OSError) as error:
                self.unusable[partition] = error
            else:
                self._offsets.note_closed(partition, log, self.high_watermark_of(partition))
        self.checkpoint()

    def fail(self, error: Exception) -> None:
        """Takes the directory and all of its logs offline. The first error stands."""
        if self.offline is not None:
            return
        self.offline = error
        for log in (*self.logs.values(), *self.copies.values()):
            if log.offline is None:
                log.abandon(error)

    def fail_unless_full(self, error: OSError) -> None:
        """Takes the directory offline after a failed write, unless the disk is only full."""
        if error.errno not in FULL:
            self.fail(error)

    def check_in_place(self) -> None:
        """Takes the directory offline if its path no longer leads to the lock file that is held.

        Writes to open files of a removed directory would succeed and be lost.
        """
        if self.offline is not None:
            return
        try:
            is_in_place = self.lock.is_in_place()
        except OSError as error:
            self.fail(error)
            return
        if not is_in_place:
            self.fail(StorageError(f"{self.path} was removed, moved or replaced"))

    def mark_logs_unsynced(self) -> None:
        """Marks all logs of a failed directory as unsynced, as a log that fails marks itself.

        Changes no memory, so a thread may call it. Skipped if another directory is at this path.
        """
        with suppress(OSError):
            if self.lock.is_in_place():
                for partition in list(self.logs):
                    mark_unsynced(self.files, self.partition_path(partition))

    def _open(
        self, partition: TopicPartition, *, is_clean: bool, start_offset: int | None = None
    ) -> None:
        path = self.partition_path(partition)
        try:
            topic_id = self._read_topic_id(partition)
            if topic_id is not None:
                # Noted even if the log cannot be opened: its topic may have been deleted.
                self.topic_ids[partition] = topic_id
            saved = self._offsets.of(partition)
            opened = open_log(
                self.pool,
                path,
                self.config_of(partition),
                is_clean=is_clean,
                recovery_point=saved.recovery_point,
                start_offset=saved.start_offset if start_offset is None else start_offset,
                cleaned_offset=saved.cleaned_offset,
                clock=self.clock,
                checkpoint=self.checkpoint,
            )
            if opened.log.end_offset < saved.high_watermark:
                opened = self._short_of(opened, path, saved.high_watermark)
        except (StorageError, OSError) as error:
            self.unusable[partition] = error
            if isinstance(error, OSError):
                mark_unsynced(self.files, path)
            return
        self.logs[partition], self.recoveries[partition] = opened
        if self._offsets.was_never_flushed(partition):
            opened.log.first_sync = self._first_sync(partition)

    def _short_of(self, opened: Opened, path: str, high_watermark: int) -> Opened:
        """A log that ends below its high watermark: committed records are lost. OSError.

        The mark comes first, because the next checkpoint lowers the high watermark.
        """
        mark_cut(self.files, path)
        why = f"it ends at {opened.log.end_offset}, below its high watermark {high_watermark}"
        recovery = opened.recovery
        return opened._replace(
            recovery=recovery._replace(cut_because=recovery.cut_because or why, is_torn_write=False)
        )

    def high_watermark(self, partition: TopicPartition) -> int:
        """The last checkpointed high watermark of a partition; 0 if there is none."""
        return self._offsets.of(partition).high_watermark

    def damage_recorded(self) -> None:
        """The caller has recorded, durably, what the recovery of the logs has cut."""
        for partition, recovery in self.recoveries.items():
            if recovery.cut_because is not None:
                remove_cut_mark(self.files, self.partition_path(partition))

    def _read_topic_id(self, partition: TopicPartition) -> Uuid | None:
        path = self.partition_path(partition)
        try:
            return checkpoint_files.read_partition_metadata(self.files, path)
        except CorruptLog:
            if not self._offsets.was_never_flushed(partition):
                raise
            # A power loss may garble an unsynced file. The metadata log has the topic id.
            self.files.remove(f"{path}/{checkpoint_files.PARTITION_METADATA}")
            return None

    def _first_sync(self, partition: TopicPartition) -> FirstSync:
        """The files and directories that the first flush syncs besides the log's own files."""
        path = self.partition_path(partition)
        said = []
        if partition in self.topic_ids:
            said.append(f"{path}/{checkpoint_files.PARTITION_METADATA}")
        if self.placements_path is not None:
            said.append(self.placements_path)
        return FirstSync(tuple(said), (path, self.path))

    def _require_online(self) -> None:
        self.check_in_place()
        if self.offline is not None:
            raise StorageError(f"{self.path} is offline: {self.offline}") from self.offline


def name_aside(partition: TopicPartition, number: int, ending: str) -> str:
    """The name of a deleted or stray partition's directory: its name, cut to fit, and an ending.

    Cut names are distinguished by a number.
    """
    name = str(partition)
    if len(name) + len(ending) > NAME_BYTES_MAX:
        ending = f".{number}{ending}"
    return f"{name[: NAME_BYTES_MAX - len(ending)]}{ending}"


def partition_of(name: str) -> TopicPartition | None:
    """The partition of a directory name; None if it is not one of a partition."""
    partition = checkpoint_files.parse_directory_name(name)
    return None if partition is None or partition.topic in METADATA_LOGS else partition
