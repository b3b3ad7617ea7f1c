"""All `log.dirs` of a broker: finds, creates and deletes logs across them."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.errors import StorageError
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.directory.directory import STRAY_SUFFIX, LogDirectory
from ottla.storage.directory.offset_checkpoints import HighWatermarkOf
from ottla.storage.directory.placements import PartitionKey, Placements
from ottla.storage.log.log import Log


class StoredPartition(NamedTuple):
    """A partition on disk, with the topic id of its partition.metadata if there is one."""

    partition: TopicPartition
    topic_id: Uuid | None
    directory: LogDirectory


class LogDirectories:
    """The log directories that could be opened; `failed` has the others with their errors.

    `placements` tells which partitions a missing directory has. Without it, it may be any.
    """

    __slots__ = ("_lost", "_placements", "directories", "failed", "forget", "full", "preferred")

    def __init__(
        self,
        directories: list[LogDirectory],
        failed: dict[str, Exception],
        placements: Placements | None = None,
    ) -> None:
        if not directories:
            raise StorageError(f"no log directory can be used: {failed}")
        self.directories = directories
        self.failed = failed
        # The directories whose disk is below the reserve: path to message.
        self.full: dict[str, str] = {}
        # Removes deleted partitions from the checkpoint files. A broker does it in a thread.
        self.forget: Callable[[LogDirectory], None] = LogDirectory.forget_deleted
        # Where partitions without a log are to be created: the path of a log directory.
        self.preferred: dict[TopicPartition, str] = {}
        self._placements = placements
        self._lost = placements.lost(self._opened()) if placements is not None else set()

    def settle_placements(
        self, empty: Collection[PartitionKey], is_known: Callable[[PartitionKey], bool]
    ) -> set[PartitionKey]:
        """The partitions without a log that are offline, because their log directory is missing.

        Called before any log is created. OSError if the placements cannot be written.
        """
        placements = self._placements
        has_notes = placements is not None and placements.is_there
        guessed = set() if has_notes or not self.failed else set(empty)
        if placements is not None:
            found = {
                (each.topic_id, each.partition.partition): each.directory.identity
                for each in self.stored_partitions()
                if each.topic_id is not None and each.directory.path != placements.home
            }
            placements.rewrite(
                {each: path for each, path in self._opened().items() if path != placements.home},
                found,
                failed=self.failed,
                guessed=guessed,
                is_known=is_known,
            )
            for directory in self.directories:
                if directory.path != placements.home:
                    directory.placements_path = placements.path
        return guessed | (self._lost & set(empty))

    def _opened(self) -> dict[str, str]:
        return {each.identity: each.path for each in self.directories}

    @property
    def offline(self) -> dict[str, Exception]:
        """The errors of the directories that failed at the start or later, by path."""
        found = {each.path: each.offline for each in self.directories if each.offline is not None}
        return {**self.failed, **found}

    def get(self, partition: TopicPartition) -> Log | None:
        for directory in self.directories:
            log = directory.logs.get(partition)
            if log:
                return log
        return None

    def directory_of(self, log: Log) -> LogDirectory:
        """The log directory of a log."""
        path = log.directory.rpartition("/")[0]
        return next(each for each in self.directories if each.path == path)

    def why_full(self, log: Log | None) -> str | None:
        """The reason to refuse appends to a log, or to all new logs if `log` is None."""
        if log is not None:
            return self.full.get(log.directory.rpartition("/")[0])
        online = [each.path for each in self.directories if each.offline is None]
        have_room = any(path not in self.full for path in online)
        return None if have_room or not online else ", ".join(map(self.full.__getitem__, online))

    def write_topic_id(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """Writes partition.metadata for a log that lacks it: Kafka's older versions wrote none, and
        a power loss before the first flush may remove it."""
        for directory in self.directories:
            # A full disk leaves this to a later start.
            with suppress(OSError):
                directory.write_topic_id(partition, topic_id)

    def stored_partitions(self) -> list[StoredPartition]:
        """All partitions on disk, whether or not they could be opened.

        A partition that was deleted while its disk failed may be beside a later one of its name.
        """
        return [
            StoredPartition(name, directory.topic_ids.get(name), directory)
            for directory in self.directories
            for name in sorted(directory.logs.keys() | directory.unusable.keys())
        ]

    def is_unusable(self, partition: TopicPartition) -> bool:
        return any(partition in directory.unusable for directory in self.directories)

    def delete(self, partitions: Sequence[TopicPartition], unique: str) -> list[str]:
        """Deletes partitions. Returns the paths of the renamed directories, for `purge`.

        A directory that fails goes offline. The next start finds its partitions and sets them
        aside as strays.
        """
        left: list[str] = []
        for directory in self.directories:
            here = [each for each in partitions if directory.holds(each)]
            if not here:
                continue
            try:
                left += directory.begin_delete(here, unique)
                self.forget(directory)
            except (OSError, StorageError) as error:
                directory.fail(error)
                for each in here:
                    # The next topic of this name must not find it.
                    directory.release(each)
        return left

    def set_aside(self, stored: StoredPartition, unique: str) -> str:
        """Renames a stray partition to `…-stray`, for an operator to look at."""
        return stored.directory.delete((stored.partition,), unique, STRAY_SUFFIX)[0]

    def purge(self, path: str) -> None:
        """Removes a renamed partition or segment. The next start does it if the disk is offline."""
        for directory in self.directories:
            if directory.offline is None and path.startswith(f"{directory.path}/"):
                directory.purge(path)

    def high_watermark(self, partition: TopicPartition) -> int:
        """The checkpointed high watermark of a log, within its offsets; 0 without a log."""
        for directory in self.directories:
            log = directory.logs.get(partition)
            if log:
                saved = min(directory.high_watermark(partition), log.end_offset)
                return max(saved, log.start_offset)
        return 0

    def checkpoint_high_watermarks(self, of: HighWatermarkOf) -> None:
        """Sets the source of the high watermarks that checkpoints save."""
        for directory in self.directories:
            directory.high_watermark_of = of

    def create(self, partition: TopicPartition, topic_id: Uuid, start_offset: int = 0) -> Log:
        """Creates a log in the directory with the fewest logs, of those above the disk reserve.

        StorageError if no directory is online, or all are below the reserve.
        """
        online = [directory for directory in self.directories if directory.offline is None]
        if not online:
            raise StorageError("every log directory is offline")
        roomy = [
            directory
            for directory in online
            if directory.path not in self.full and partition not in directory.leaving
        ]
        if not roomy:
            raise StorageError(self.why_full(None) or "no log directory has room")
        wanted = self.preferred.pop(partition, None)
        directory = min(roomy, key=lambda each: (each.path != wanted, len(each.logs)))
        self.note_placement(partition, topic_id, directory)
        try:
            return directory.create(partition, topic_id, start_offset)
        except OSError as error:
            directory.fail_unless_full(error)
            raise

    def note_placement(
        self, partition: TopicPartition, topic_id: Uuid, directory: LogDirectory
    ) -> None:
        """Notes the directory of a partition before its log is there. OSError, StorageError.

        The log's first flush makes the note durable.
        """
        if self._placements is not None and directory.path != self._placements.home:
            self._placements.add((topic_id, partition.partition), directory.identity)

    def close(self, *, broker_epoch: int) -> dict[str, Exception]:
        """Closes all directories. Returns the errors by path.

        A directory that failed at the start counts as not closed.
        """
        faults = dict(self.failed)
        for directory in self.directories:
            faults |= directory.close(broker_epoch=broker_epoch)
        if self._placements is not None:
            self._placements.close()
        return faults
