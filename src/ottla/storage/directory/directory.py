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
from ottla.storage.directory.checkpoint_task import Checkpoint, CheckpointFiles, PlannedStart
from ottla.storage.directory.full_disk import FULL
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.flush import Around
from ottla.storage.log.log import Log
from ottla.storage.opening.recovery import Recovery, open_log
from ottla.storage.opening.unsynced_tail import mark_distrusted

LOCK = ".lock"
DELETE_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
# Of a file's name, wherever we run. A topic's alone may have 249.
NAME_BYTES_MAX = 255
# Metadata logs, Kafka's and ours, look like partitions and are none.
METADATA_LOGS = frozenset({"__cluster_metadata", "__ottla_metadata"})

ConfigOf = Callable[[TopicPartition], LogConfig]


class DirectoryInUse(StorageError):
    """Another process works on this directory."""


class WrongCluster(StorageError):
    """This directory belongs to another cluster or node."""


@dataclass(slots=True)
class LogDirectory:
    """Opened by `open_directory`. Changes to start offsets and recovery points are its business:
    a log has them made durable by `checkpoint`."""

    files: Files
    path: str
    meta: MetaProperties
    config_of: ConfigOf
    clock: Clock
    _lock: Lock
    _pool: FilePool
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    topic_ids: dict[TopicPartition, Uuid] = field(default_factory=dict)
    # What could not be opened, and why.
    unusable: dict[TopicPartition, Exception] = field(default_factory=dict)
    recoveries: dict[TopicPartition, Recovery] = field(default_factory=dict)
    offline: Exception | None = None
    # The file that says which logs are here, if it is in another directory.
    placements_path: str | None = None
    _recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    _start_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    _cleaned_offsets: dict[TopicPartition, int] = field(default_factory=dict)
    _cleaned_saved: dict[TopicPartition, int] = field(default_factory=dict)
    _checkpoints_begun: int = 0
    # The first checkpoint that no longer names a partition that was deleted, until it is durable.
    _forgotten_by: dict[TopicPartition, int] = field(default_factory=dict)
    _checkpoint_files: CheckpointFiles = field(init=False)

    def __post_init__(self) -> None:
        self._checkpoint_files = CheckpointFiles(self.files, self.path)

    @property
    def identity(self) -> str:
        """Its id; Kafka's older directories have none, and go by their path."""
        return self.meta.directory_id or self.path

    def partition_path(self, partition: TopicPartition) -> str:
        return f"{self.path}/{partition}"

    def load(self, *, is_clean: bool) -> None:
        """Opens every log that is there, one after another."""
        self._recovery_points = checkpoint_files.read_offsets(
            self.files, f"{self.path}/{checkpoint_files.RECOVERY_POINTS}"
        )
        self._start_offsets = checkpoint_files.read_offsets(
            self.files, f"{self.path}/{checkpoint_files.LOG_START_OFFSETS}"
        )
        self._cleaned_offsets = checkpoint_files.read_offsets(
            self.files, f"{self.path}/{checkpoint_files.CLEANER_OFFSETS}"
        )
        self._cleaned_saved = dict(self._cleaned_offsets)
        found = set()
        for name in self.files.list(self.path):
            partition = partition_of(name)
            if partition and self.files.is_dir(f"{self.path}/{name}"):
                found.add(partition)
                self._open(partition, is_clean=is_clean)
            elif name.endswith(DELETE_SUFFIX):
                self.purge(f"{self.path}/{name}")
        self._forget_points_except(found)
        self.checkpoint()

    def create(self, partition: TopicPartition, topic_id: Uuid) -> Log:
        """A new partition's empty log; its first flush makes its directory durable, too."""
        self._require_online()
        if self._checkpoint_files.written < self._forgotten_by.get(partition, 0):
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
            self._pool.forget_below(path)
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
            self._forgotten_by[partition] = self._checkpoints_begun + 1
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
        # Else a later partition of this name would be judged by what was known of this one.
        for offsets in self._points:
            offsets.pop(partition, None)
        source = self.partition_path(partition)
        target = f"{self.path}/{name}"
        self._pool.forget_below(source)
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
        planned: list[PlannedStart] = []
        arounds: list[Around] = []
        for partition, log in self.logs.items():
            if log.offline is None:
                self._recovery_points[partition] = log.recovery_point
                # Even where the first segment says the same: older ones may come back.
                self._start_offsets[partition] = log.start_offset
                self._note_cleaned(partition, log)
                if log.planned_start is not None and log.planned_start > log.start_offset:
                    self._start_offsets[partition] = log.planned_start
                    planned.append(PlannedStart(log, log.planned_start, log.truncations))
                    if log.unsynced_around is not None:
                        arounds.append(log.unsynced_around)
        self._checkpoints_begun += 1
        is_cleaned_news = self._cleaned_offsets != self._cleaned_saved
        return Checkpoint(
            place=self._checkpoint_files,
            number=self._checkpoints_begun,
            start_offsets=dict(self._start_offsets),
            recovery_points=dict(self._recovery_points),
            cleaned_offsets=dict(self._cleaned_offsets) if is_cleaned_news else None,
            has_renames=bool(self._forgotten_by),
            arounds=tuple(arounds),
            starts=tuple(planned),
        )

    def end_checkpoint(self, checkpoint: Checkpoint) -> None:
        """It has run: the starts that it planned are in force, the names that it forgot free."""
        number = checkpoint.number
        for name in [name for name, first in self._forgotten_by.items() if first <= number]:
            del self._forgotten_by[name]
        for log, offset, truncations in checkpoint.starts:
            log.planned_start_is_durable(offset, truncations)
        if checkpoint.cleaned_offsets is not None:
            self._cleaned_saved = dict(checkpoint.cleaned_offsets)

    @property
    def _points(self) -> tuple[dict[TopicPartition, int], ...]:
        """What the checkpoints say of each partition, by its name alone."""
        return self._recovery_points, self._start_offsets, self._cleaned_offsets

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
            self._lock.release()
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
                self._recovery_points[partition] = log.end_offset
                self._note_cleaned(partition, log)
        self.checkpoint()

    def _note_cleaned(self, partition: TopicPartition, log: Log) -> None:
        if log.cleaned_offset or partition in self._cleaned_offsets:
            self._cleaned_offsets[partition] = log.cleaned_offset

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
            is_in_place = self._lock.is_in_place()
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
            if self._lock.is_in_place():
                for partition in list(self.logs):
                    mark_distrusted(self.files, self.partition_path(partition))

    def _open(self, partition: TopicPartition, *, is_clean: bool) -> None:
        path = self.partition_path(partition)
        try:
            topic_id = self._read_topic_id(partition)
            if topic_id is not None:
                # Known even if its log cannot be opened: it may be a topic's that is gone.
                self.topic_ids[partition] = topic_id
            opened = open_log(
                self._pool,
                path,
                self.config_of(partition),
                is_clean=is_clean,
                recovery_point=self._recovery_points.get(partition, 0),
                start_offset=self._start_offsets.get(partition),
                cleaned_offset=self._cleaned_offsets.get(partition, 0),
                clock=self.clock,
                checkpoint=self.checkpoint,
            )
        except (StorageError, OSError) as error:
            self.unusable[partition] = error
            if isinstance(error, OSError):
                mark_distrusted(self.files, path)
            return
        self.logs[partition], self.recoveries[partition] = opened
        if self._was_never_flushed(partition):
            opened.log.unsynced_around = self._around(partition)

    def _read_topic_id(self, partition: TopicPartition) -> Uuid | None:
        path = self.partition_path(partition)
        try:
            return checkpoint_files.read_partition_metadata(self.files, path)
        except CorruptLog:
            if not self._was_never_flushed(partition):
                raise
            # A power loss may leave anything of it. The metadata knows whose it is.
            self.files.remove(f"{path}/{checkpoint_files.PARTITION_METADATA}")
            return None

    def _was_never_flushed(self, partition: TopicPartition) -> bool:
        return self._recovery_points.get(partition, 0) == 0

    def _around(self, partition: TopicPartition) -> Around:
        """What its next flush has to sync besides what the log itself wrote."""
        path = self.partition_path(partition)
        said = []
        if partition in self.topic_ids:
            said.append(f"{path}/{checkpoint_files.PARTITION_METADATA}")
        if self.placements_path is not None:
            said.append(self.placements_path)
        return Around(tuple(said), (path, self.path))

    def _forget_points_except(self, found: set[TopicPartition]) -> None:
        for offsets in self._points:
            for partition in offsets.keys() - found:
                del offsets[partition]

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


def check_directory(
    files: Files, path: str, *, cluster_id: str | None, node_id: int
) -> MetaProperties | None:
    """Its name tag, if it has one; for whoever writes to a directory before it is opened.

    DirectoryInUse or WrongCluster if it is not for this node, OSError if nobody can say.
    """
    _lock(files, path).release()
    meta = MetaProperties.read(files, path)
    if meta is not None:
        _require_same(meta, path, cluster_id or meta.cluster_id, node_id)
    return meta


def open_directory(
    files: Files,
    path: str,
    *,
    cluster_id: str,
    node_id: int,
    directory_id: Uuid,
    config_of: ConfigOf,
    clock: Clock,
    open_files_max: int = 512,
) -> LogDirectory:
    """Locks, checks and loads a log directory; stamps it if it is new.

    DirectoryInUse, WrongCluster, CorruptLog or OSError if it cannot be used at all.
    """
    lock = _lock(files, path)
    try:
        meta = _stamp(files, path, cluster_id, node_id, directory_id)
        is_clean = checkpoint_files.read_clean_shutdown(files, path) is not None
        checkpoint_files.remove_clean_shutdown(files, path)
        pool = FilePool(files, open_files_max)
        directory = LogDirectory(files, path, meta, config_of, clock, lock, pool)
        directory.load(is_clean=is_clean)
    except BaseException:
        lock.release()
        raise
    return directory


def _lock(files: Files, path: str) -> Lock:
    try:
        return files.lock(f"{path}/{LOCK}")
    except BlockingIOError:
        raise DirectoryInUse(f"{path} is in use by another process") from None


def _stamp(
    files: Files, path: str, cluster_id: str, node_id: int, directory_id: Uuid
) -> MetaProperties:
    meta = MetaProperties.read(files, path)
    if meta is None:
        if _holds_partitions(files, path):
            raise CorruptLog(
                f"{path}/{checkpoint_files.META_PROPERTIES}",
                0,
                "missing, though partitions are here",
            )
        meta = MetaProperties(cluster_id, node_id, str(directory_id))
        meta.write(files, path)
    _require_same(meta, path, cluster_id, node_id)
    return meta


def _require_same(meta: MetaProperties, path: str, cluster_id: str, node_id: int) -> None:
    if (meta.cluster_id, meta.node_id) != (cluster_id, node_id):
        raise WrongCluster(
            f"{path} belongs to node {meta.node_id} of cluster {meta.cluster_id}, "
            f"this is node {node_id} of cluster {cluster_id}"
        )


def _holds_partitions(files: Files, path: str) -> bool:
    return any(partition_of(name) and files.is_dir(f"{path}/{name}") for name in files.list(path))
