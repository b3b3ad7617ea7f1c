"""What the tests of the log share: a place to keep one, and batches to put there."""

from collections.abc import Sequence

from ottla.protocol.batch import Marker, MarkerKind, Record, build, build_marker, read_header
from ottla.seams.files import Buffer, File, Files, Lock
from ottla.storage.log.append_result import Appended
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.log import Log
from ottla.storage.opening.recovery import open_log
from ottla.storage.opening.tail_scan import Recovery
from tests.sim.seams.clock import SimClock

NOW_MS = 1_700_000_000_000
SMALL = LogConfig(segment_bytes=1000, index_interval_bytes=100)


class CountingFile:
    """A file that tells its file system how much was read of it."""

    def __init__(self, files: "CountingFiles", file: File) -> None:
        self._files = files
        self._file = file
        self.path = file.path

    def fileno(self) -> int:
        return self._file.fileno()

    def size(self) -> int:
        return self._file.size()

    def read_at(self, position: int, size: int) -> bytes:
        found = self._file.read_at(position, size)
        self._files.read_bytes += len(found)
        return found

    def read_warm(self, position: int, size: int) -> bytes | bytearray | None:
        found = self._file.read_warm(position, size)
        self._files.read_bytes += len(found or b"")
        return found

    def is_warm(self, position: int) -> bool:
        return self._file.is_warm(position)

    def warm(self, position: int, size: int) -> None:
        self._file.warm(position, size)

    def write_at(self, position: int, parts: Sequence[Buffer]) -> int:
        return self._file.write_at(position, parts)

    def truncate(self, size: int) -> None:
        self._file.truncate(size)

    def sync(self) -> None:
        self._files.synced.append(self.path)
        self._file.sync()

    def start_writeback(self, position: int, size: int) -> None:
        self._file.start_writeback(position, size)

    def close(self) -> None:
        self._file.close()


class CountingFiles:
    """Another file system, and how much was read of its files, and which were synced."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.read_bytes = 0
        self.synced: list[str] = []

    def open(self, path: str, *, writable: bool = True) -> File:
        return CountingFile(self, self._files.open(path, writable=writable))

    def create(self, path: str) -> File:
        return CountingFile(self, self._files.create(path))

    def exists(self, path: str) -> bool:
        return self._files.exists(path)

    def is_dir(self, path: str) -> bool:
        return self._files.is_dir(path)

    def size(self, path: str) -> int:
        return self._files.size(path)

    def list(self, path: str) -> list[str]:
        return self._files.list(path)

    def make_dir(self, path: str) -> None:
        self._files.make_dir(path)

    def rename(self, source: str, target: str) -> None:
        self._files.rename(source, target)

    def remove(self, path: str) -> None:
        self._files.remove(path)

    def remove_dir(self, path: str) -> None:
        self._files.remove_dir(path)

    def sync_dir(self, path: str) -> None:
        self.synced.append(path)
        self._files.sync_dir(path)

    def lock(self, path: str) -> Lock:
        return self._files.lock(path)

    def free_bytes(self, path: str) -> int:
        return self._files.free_bytes(path)

    def total_bytes(self, path: str) -> int:
        return self._files.total_bytes(path)


class Workbench:
    """One log's directory, and what its owner would have checkpointed of it."""

    def __init__(self, files: Files, directory: str) -> None:
        self.files = CountingFiles(files)
        self.directory = directory
        self.clock = SimClock(wall_ms=NOW_MS)
        self.files.make_dir(directory)
        self.start_offset: int | None = None
        self.recovery_point = 0
        self.recovery = Recovery()

    def open(
        self,
        config: LogConfig = SMALL,
        *,
        is_clean: bool = False,
        open_files_max: int = 64,
    ) -> Log:
        """The log as a new process finds it."""
        pool = FilePool(self.files, open_files_max)
        log, self.recovery = open_log(
            pool,
            self.directory,
            config,
            is_clean=is_clean,
            recovery_point=self.recovery_point,
            start_offset=self.start_offset,
            clock=self.clock,
            checkpoint=lambda: self.checkpoint(log),
        )
        self.checkpoint(log)
        return log

    def restart(self, files: Files) -> None:
        """Another process works here from now on."""
        self.files = CountingFiles(files)

    def checkpoint(self, log: Log) -> None:
        self.start_offset, self.recovery_point = log.start_offset, log.recovery_point

    def names(self, suffix: str) -> list[str]:
        return [name for name in self.files.list(self.directory) if name.endswith(suffix)]

    def path(self, name: str) -> str:
        return f"{self.directory}/{name}"

    def remove_all(self, *suffixes: str) -> None:
        for suffix in suffixes:
            for name in self.names(suffix):
                self.files.remove(self.path(name))

    def overwrite(self, name: str, position: int, content: bytes) -> None:
        file = self.files.open(self.path(name))
        file.write_at(position, [content])
        file.close()


def batch_of(
    *timestamps_ms: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
    value: bytes = b"v",
    log_append_time_ms: int | None = None,
) -> bytearray:
    """One record for each time."""
    times = timestamps_ms or (NOW_MS,)
    return build(
        [Record(base_offset + index, time, b"k", value) for index, time in enumerate(times)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        log_append_time_ms=log_append_time_ms,
    )


def batch_from(
    producer_id: int, sequence: int, *, count: int = 1, epoch: int = 0, transactional: bool = False
) -> bytearray:
    return build(
        [Record(index, NOW_MS, b"k", b"v") for index in range(count)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )


def append(log: Log, batch: bytearray, *, leader_epoch: int = 0) -> Appended:
    return log.append(batch, read_header(batch), leader_epoch=leader_epoch)


def fill(log: Log, count: int, *, value: bytes = b"v" * 40) -> None:
    """That many records, each in a batch of its own, a millisecond apart."""
    for _ in range(count):
        append(log, batch_of(NOW_MS + log.end_offset, value=value))


def end_transaction(log: Log, producer_id: int, kind: MarkerKind) -> Appended:
    marker = Marker(kind, 0)
    batch = build_marker(marker, producer_id=producer_id, producer_epoch=0, timestamp_ms=NOW_MS)
    header = read_header(batch)
    return log.append_marker(batch, header, marker, leader_epoch=0, transaction_version=0)


def content(log: Log) -> bytes:
    """Everything that a consumer from the log's start would get."""
    found = b""
    offset = log.start_offset
    while (piece := log.read(offset, bytes_max=1)) is not None:
        batch = piece.read()
        found += batch
        offset = read_header(batch).next_offset
    return found


def offsets(log: Log) -> list[int]:
    """The base offset of every batch that a consumer would get."""
    served, position, found = content(log), 0, []
    while position < len(served):
        header = read_header(served, position)
        found.append(header.base_offset)
        position += header.size
    return found
