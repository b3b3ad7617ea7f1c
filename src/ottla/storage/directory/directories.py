"""All of a broker's `log.dirs` together: where each log is, and where a new one goes."""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from ottla.errors import StorageError
from ottla.protocol.primitives import Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.storage.directory.directory import STRAY_SUFFIX, LogDirectory
from ottla.storage.directory.placements import Placed, Placements
from ottla.storage.log.log import Log


class Holding(NamedTuple):
    """A partition's directory, and whose records it holds, if it says so."""

    partition: TopicPartition
    topic_id: Uuid | None
    directory: LogDirectory


class LogDirectories:
    """The directories that opened; those that did not are named with their reason.

    With `placements` it is known which partitions those have; without, it may be any.
    """

    __slots__ = ("_lost", "_placements", "directories", "failed", "forget", "full")

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
        # Why those directories take no records whose disk is below its reserve, by path.
        self.full: dict[str, str] = {}
        # Has a directory forget, durably, what was deleted; a broker has it done in a thread.
        self.forget: Callable[[LogDirectory], None] = LogDirectory.forget_deleted
        self._placements = placements
        self._lost = placements.lost(self._opened()) if placements is not None else set()

    def begin(self, empty: Collection[Placed], is_known: Callable[[Placed], bool]) -> set[Placed]:
        """Before anything is made here: which of the partitions without a log are offline.

        Their logs are in a directory that is missing. OSError if that cannot be written down.
        """
        placements = self._placements
        has_notes = placements is not None and placements.is_there
        guessed = set() if has_notes or not self.failed else set(empty)
        if placements is not None:
            found = {
                (each.topic_id, each.partition.partition): each.directory.identity
                for each in self.holdings()
                if each.topic_id is not None and each.directory.path != placements.home
            }
            placements.begin(
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
        """The directories that cannot be used, since the start or by now, and why."""
        found = {each.path: each.offline for each in self.directories if each.offline is not None}
        return {**self.failed, **found}

    def get(self, partition: TopicPartition) -> Log | None:
        for directory in self.directories:
            log = directory.logs.get(partition)
            if log:
                return log
        return None

    def home_of(self, log: Log) -> LogDirectory:
        """The directory that holds a log."""
        path = log.directory.rpartition("/")[0]
        return next(each for each in self.directories if each.path == path)

    def why_full(self, log: Log | None) -> str | None:
        """Why nothing may be appended to a log; or, if it is yet to be made, why nowhere."""
        if log is not None:
            return self.full.get(log.directory.rpartition("/")[0])
        online = [each.path for each in self.directories if each.offline is None]
        have_room = any(path not in self.full for path in online)
        return None if have_room or not online else ", ".join(map(self.full.__getitem__, online))

    def claim(self, partition: TopicPartition, topic_id: Uuid) -> None:
        """Has the partition's directory say whose it is, if it does not: it may be an old one, or a
        power loss came before its first flush."""
        for directory in self.directories:
            # On a full disk it is known all the same, and written at a later start.
            with suppress(OSError):
                directory.claim(partition, topic_id)

    def holdings(self) -> list[Holding]:
        """Every partition that has a directory, whether or not it could be opened.

        One that was deleted while its disk failed may be here beside a later one of its name.
        """
        return [
            Holding(name, directory.topic_ids.get(name), directory)
            for directory in self.directories
            for name in sorted(directory.logs.keys() | directory.unusable.keys())
        ]

    def is_unusable(self, partition: TopicPartition) -> bool:
        return any(partition in directory.unusable for directory in self.directories)

    def delete(self, partitions: Sequence[TopicPartition], unique: str) -> list[str]:
        """Takes partitions away; the paths of what is left, for `purge`.

        Where a disk failed nothing is: what is there will be found at the next start, and set
        aside.
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
        return left

    def set_aside(self, holding: Holding, unique: str) -> str:
        """Takes a partition away that nobody knows, and keeps it for somebody to look at."""
        return holding.directory.delete((holding.partition,), unique, STRAY_SUFFIX)[0]

    def purge(self, path: str) -> None:
        """Removes what `delete` left of a partition, or `Log.drop_segments` of a segment.

        In a directory that is offline it is left to the next start.
        """
        for directory in self.directories:
            if directory.offline is None and path.startswith(f"{directory.path}/"):
                directory.purge(path)

    def create(self, partition: TopicPartition, topic_id: Uuid) -> Log:
        """A new log, in the directory that has the fewest, of those that have room.

        StorageError if none is online, or all are below their reserve.
        """
        online = [directory for directory in self.directories if directory.offline is None]
        if not online:
            raise StorageError("every log directory is offline")
        roomy = [directory for directory in online if directory.path not in self.full]
        if not roomy:
            raise StorageError(self.why_full(None) or "no log directory has room")
        directory = min(roomy, key=lambda directory: len(directory.logs))
        if self._placements is not None and directory.path != self._placements.home:
            self._placements.note((topic_id, partition.partition), directory.identity)
        try:
            return directory.create(partition, topic_id)
        except OSError as error:
            directory.fail_unless_full(error)
            raise

    def close(self, *, broker_epoch: int) -> dict[str, Exception]:
        """Closes all that is open; what could not be closed as it should, and why.

        A directory that was not there at all was not closed either.
        """
        faults = dict(self.failed)
        for directory in self.directories:
            faults |= directory.close(broker_epoch=broker_epoch)
        if self._placements is not None:
            self._placements.close()
        return faults
