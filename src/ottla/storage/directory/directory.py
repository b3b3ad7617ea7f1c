"""One of a broker's `log.dirs`: its lock, its name tag, its checkpoints and its logs.

A log that cannot be opened, or whose disk fails it, is offline and harms no other. A fault of the
directory itself takes all of its logs offline, and those of no other directory.
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
from ottla.storage.directory.checkpoint_task import Checkpoint
from ottla.storage.directory.full_disk import FULL
from ottla.storage.directory.offset_checkpoints import OffsetCheckpoints
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.flush import Around
from ottla.storage.log.log import Log
from ottla.storage.opening.recovery import open_log
from ottla.storage.opening.tail_scan import Recovery
from ottla.storage.opening.unsynced_tail import mark_distrusted

DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
# Of a file's name, wherever we run. A topic's alone may have 249.
NAME_BYTES_MAX = 255
# Metadata logs, Kafka's and ours, look like partitions and are none.
METADATA_LOGS = frozenset({"__cluster_metadata", "__ottla_metadata"})

ConfigOf = Callable[[TopicPartition], LogConfig]


@dataclass(slots=True, kw_only=True)
class LogDirectory:
    """Opened by `open_directory`. Changes to start offsets and recovery points are its business:
    a log has them made durable by `checkpoint`."""

    files: Files
    path: str
    meta: MetaProperties
    config_of: ConfigOf
    clock: Clock
    lock: Lock
    pool: FilePool
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    topic_ids: dict[TopicPartition, Uuid] = field(default_factory=dict)
    # What could not be opened, and why.
    unusable: dict[TopicPartition, Exception] = field(default_factory=dict)
    recoveries: dict[TopicPartition, Recovery] = field(default_factory=dict)
    offline: Exception | None = None
    # The file that says which logs are here, if it is in another directory.
    placements_path: str | None = None
    _offsets: OffsetCheckpoints = field(init=False)

    def __post_init__(self) -> None:
        self._offsets = OffsetCheckpoints(self.files, self.path)

    @property
    def identity(self) -> str:
        """Its id; Kafka's older directories have none, and go by their path."""
        return self.meta.directory_id or self.path

    def partition_path(self, partition: TopicPartition) -> str:
        return f"{self.path}/{partition}"

    def load(self, *, is_clean: bool) -> None:
        """Opens every log that is there, one after another."""
        self._offsets.read()
        found = set()
        for name in self.files.list(self.path):
            partition = partition_of(name)
            if partition and self.files.is_dir(f"{self.path}/{name}"):
                found.add(partition)
                self._open(partition, is_clean=is_clean)
            elif name.endswith(DELETE_SUFFIX):
                self.purge(f"{self.path}/{name}")
        self._offsets.forget_except(found)
        self.checkpoint()

    def create(self, partition: TopicPartition, topic_id: Uuid) -> Log:
        """A new partition's empty log; its first flush makes its directory durable, too."""
        self._require_online()
        if not self._offsets.is_name_free(partition):
            self.checkpoint()
        path = self.partition_path(partition)
        self.files.make_dir(path)
        try:
            checkpoint_files.write_partition_metadata(self.files, path, topic_id)
            self._open(partition, is_clean=True)
            if error := self.unusable.pop(partition, None):
                raise error
        except OSError:
            # A full disk may have room later: nothing is left in the way.
            self.topic_ids.pop(partition, None)
            self.pool.forget_below(path)
            self.purge(path)
            raise
        return self.logs[partition]

    def holds(self, partition: TopicPartition) -> bool:
        """Whether its directory is here, usable or not."""
        return partition in self.logs or partition in self.unusable

    def claim(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """Says whose a log is whose directory does not say it. OSError if the disk refuses."""
        log = self.logs.get(partition)
        if log is not None and partition not in self.topic_ids:
            path = self.partition_path(partition)
            checkpoint_files.write_partition_metadata(self.files, path, topic_id)
            self.topic_ids[partition] = topic_id
            log.unsynced_around = self._around(partition)

    def delete(
        self, partitions: Iterable[TopicPartition], unique: str, suffix: str = DELETE_SUFFIX
    ) -> list[str]:
        """Takes partitions away, durably; the paths of what is left, for `purge`."""
        left = self.begin_delete(partitions, unique, suffix)
        self.forget_deleted()
        return left

    def begin_delete(
        self, partitions: Iterable[TopicPartition], unique: str, suffix: str = DELETE_SUFFIX
    ) -> list[str]:
        """As `delete`, but durable with the next checkpoint. Until then no name is used again."""
        self._require_online()
        left = []
        for number, partition in enumerate(partitions):
            name = _name_aside(partition, number, f".{unique}{suffix}")
            left.append(self._set_aside(partition, name))
            self._offsets.forget(partition)
        return left

    def forget_deleted(self) -> None:
        """A checkpoint, unless the disk is full: what is deleted makes room, and it comes later."""
        try:
            self.checkpoint()
        except OSError as error:
            if error.errno not in FULL:
                raise

    def _set_aside(self, partition: TopicPartition, name: str) -> str:
        log = self.logs.pop(partition, None)
        if log:
            log.abandon()
        self.unusable.pop(partition, None)
        self.topic_ids.pop(partition, None)
        source = self.partition_path(partition)
        target = f"{self.path}/{name}"
        self.pool.forget_below(source)
        self.files.rename(source, target)
        return target

    def purge(self, path: str) -> None:
        """Removes what `delete` left of a partition, or `Log.drop_segments` of a segment."""
        if not self.files.is_dir(path):
            if self.files.exists(path):
                self.files.remove(path)
            return
        for name in self.files.list(path):
            self.files.remove(f"{path}/{name}")
        self.files.remove_dir(path)

    def checkpoint(self) -> None:
        """Makes every log's recovery point and start offset durable, planned ones included."""
        checkpoint = self.begin_checkpoint()
        try:
            checkpoint.run()
        except OSError as error:
            self.fail_unless_full(error)
            raise
        self.end_checkpoint(checkpoint)

    def begin_checkpoint(self) -> Checkpoint:
        """Its `run` may be called in a thread, then `end_checkpoint`, or `fail_unless_full` if it
        failed. StorageError if offline."""
        self._require_online()
        return self._offsets.begin(self.logs)

    def end_checkpoint(self, checkpoint: Checkpoint) -> None:
        """The checkpoint has run: its planned starts are in force, forgotten names are free."""
        self._offsets.end(checkpoint)

    def close(self, *, broker_epoch: int) -> dict[str, Exception]:
        """Flushes and closes all logs; the marker of a clean stop comes last, if all went well.

        What did not, and why, by path.
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
                self.distrust_logs()
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
                self._offsets.note_closed(partition, log)
        self.checkpoint()

    def fail(self, error: Exception) -> None:
        """The directory cannot be trusted: all of its logs go offline. The first reason stands."""
        if self.offline is not None:
            return
        self.offline = error
        for log in self.logs.values():
            if log.offline is None:
                log.abandon(error)

    def fail_unless_full(self, error: OSError) -> None:
        """A write of the directory's own files failed. On a full disk nothing is broken."""
        if error.errno not in FULL:
            self.fail(error)

    def check_in_place(self) -> None:
        """Takes the directory offline if its path no longer leads to the lock file that is held.

        Writes to files that are open would succeed, and be lost.
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

    def distrust_logs(self) -> None:
        """Marks all logs of a directory that failed, as a log that fails marks itself.

        It changes nothing in memory, so it may be called in a thread. Another directory that is
        now at this path is left alone.
        """
        with suppress(OSError):
            if self.lock.is_in_place():
                for partition in list(self.logs):
                    mark_distrusted(self.files, self.partition_path(partition))

    def _open(self, partition: TopicPartition, *, is_clean: bool) -> None:
        path = self.partition_path(partition)
        try:
            topic_id = self._read_topic_id(partition)
            if topic_id is not None:
                # Known even if its log cannot be opened: it may be a topic's that is gone.
                self.topic_ids[partition] = topic_id
            saved = self._offsets.of(partition)
            opened = open_log(
                self.pool,
                path,
                self.config_of(partition),
                is_clean=is_clean,
                recovery_point=saved.recovery_point,
                start_offset=saved.start_offset,
                cleaned_offset=saved.cleaned_offset,
                clock=self.clock,
                checkpoint=self.checkpoint,
            )
        except (StorageError, OSError) as error:
            self.unusable[partition] = error
            if isinstance(error, OSError):
                mark_distrusted(self.files, path)
            return
        self.logs[partition], self.recoveries[partition] = opened
        if self._offsets.was_never_flushed(partition):
            opened.log.unsynced_around = self._around(partition)

    def _read_topic_id(self, partition: TopicPartition) -> Uuid | None:
        path = self.partition_path(partition)
        try:
            return checkpoint_files.read_partition_metadata(self.files, path)
        except CorruptLog:
            if not self._offsets.was_never_flushed(partition):
                raise
            # A power loss may leave anything of it. The metadata knows whose it is.
            self.files.remove(f"{path}/{checkpoint_files.PARTITION_METADATA}")
            return None

    def _around(self, partition: TopicPartition) -> Around:
        """What its next flush has to sync besides what the log itself wrote."""
        path = self.partition_path(partition)
        said = []
        if partition in self.topic_ids:
            said.append(f"{path}/{checkpoint_files.PARTITION_METADATA}")
        if self.placements_path is not None:
            said.append(self.placements_path)
        return Around(tuple(said), (path, self.path))

    def _require_online(self) -> None:
        self.check_in_place()
        if self.offline is not None:
            raise StorageError(f"{self.path} is offline: {self.offline}") from self.offline


def _name_aside(partition: TopicPartition, number: int, ending: str) -> str:
    """What a partition's directory is called once it is set aside: as much of its name as fits.

    Names that are cut are told apart by their number among those that have the same ending.
    """
    name = str(partition)
    if len(name) + len(ending) > NAME_BYTES_MAX:
        ending = f".{number}{ending}"
    return f"{name[: NAME_BYTES_MAX - len(ending)]}{ending}"


def partition_of(name: str) -> TopicPartition | None:
    """The partition whose log lies in a directory of this name, if it is one's."""
    partition = checkpoint_files.parse_directory_name(name)
    return None if partition is None or partition.topic in METADATA_LOGS else partition
