"""All of a broker's `log.dirs` together: where each log is, and where a new one goes."""

from ottla.errors import StorageError
from ottla.protocol.primitives import Uuid
from ottla.storage.checkpoints import TopicPartition
from ottla.storage.directory import STRAY_SUFFIX, LogDirectory
from ottla.storage.log import FULL, Log


class LogDirectories:
    """The directories that opened; those that did not are named with their reason."""

    __slots__ = ("directories", "failed")

    def __init__(self, directories: list[LogDirectory], failed: dict[str, Exception]) -> None:
        if not directories:
            raise StorageError(f"no log directory can be used: {failed}")
        self.directories = directories
        self.failed = failed

    def get(self, partition: TopicPartition) -> Log | None:
        for directory in self.directories:
            log = directory.logs.get(partition)
            if log:
                return log
        return None

    def partitions(self) -> list[TopicPartition]:
        """Every partition that has a directory, whether or not it could be opened."""
        return sorted(
            name
            for directory in self.directories
            for name in (*directory.logs, *directory.unusable.keys() - directory.logs.keys())
        )

    def topic_id(self, partition: TopicPartition) -> Uuid | None:
        """Whose records a partition's directory holds, if it says so."""
        return self._home_of(partition).topic_ids.get(partition)

    def is_unusable(self, partition: TopicPartition) -> bool:
        return any(partition in directory.unusable for directory in self.directories)

    def delete(self, partition: TopicPartition, unique: str) -> str | None:
        """Takes a partition away; the path of what is left, for `purge`.

        None if its disk failed: what is there will be found at the next start, and set aside.
        """
        directory = self._home_of(partition)
        try:
            return directory.delete(partition, unique)
        except (OSError, StorageError) as error:
            if directory.offline is None:
                directory.fail(error)
            return None

    def set_aside(self, partition: TopicPartition, unique: str) -> str:
        """Takes a partition away that nobody knows, and keeps it for somebody to look at."""
        return self._home_of(partition).delete(partition, unique, STRAY_SUFFIX)

    def purge(self, path: str) -> None:
        """Removes what `delete` left of a partition, or `Log.drop_segments` of a segment."""
        for directory in self.directories:
            if path.startswith(f"{directory.path}/"):
                directory.purge(path)

    def _home_of(self, partition: TopicPartition) -> LogDirectory:
        for directory in self.directories:
            if partition in directory.logs or partition in directory.unusable:
                return directory
        raise KeyError(partition)

    def create(self, partition: TopicPartition, topic_id: Uuid, now_ms: int) -> Log:
        """A new log, in the directory that has the fewest. StorageError if none is online."""
        online = [directory for directory in self.directories if directory.offline is None]
        if not online:
            raise StorageError("every log directory is offline")
        directory = min(online, key=lambda directory: len(directory.logs))
        try:
            return directory.create(partition, topic_id, now_ms)
        except OSError as error:
            if error.errno not in FULL:
                directory.fail(error)
            raise

    def close(self, *, broker_epoch: int, now_ms: int) -> None:
        for directory in self.directories:
            directory.close(broker_epoch=broker_epoch, now_ms=now_ms)
