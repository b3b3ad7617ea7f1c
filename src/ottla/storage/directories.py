"""All of a broker's `log.dirs` together: where each log is, and where a new one goes."""

from ottla.errors import StorageError
from ottla.protocol.primitives import Uuid
from ottla.storage.checkpoints import TopicPartition
from ottla.storage.directory import LogDirectory
from ottla.storage.log import Log


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

    def create(self, partition: TopicPartition, topic_id: Uuid, now_ms: int) -> Log:
        """A new log, in the directory that has the fewest. StorageError if none is online."""
        online = [directory for directory in self.directories if directory.offline is None]
        if not online:
            raise StorageError("every log directory is offline")
        directory = min(online, key=lambda directory: len(directory.logs))
        try:
            return directory.create(partition, topic_id, now_ms)
        except OSError as error:
            directory.fail(error)
            raise

    def close(self, *, broker_epoch: int, now_ms: int) -> None:
        for directory in self.directories:
            directory.close(broker_epoch=broker_epoch, now_ms=now_ms)
