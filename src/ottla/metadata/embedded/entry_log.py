"""The metadata entries in a local log: each entry is a batch of one record, at the entry's offset.

An entry is committed once it is flushed, and is not visible before. The recovery point is saved
before the next entry is written. So after a crash at most one entry, which was not acknowledged,
can be torn; any other damage is a CorruptLog.
"""

from collections.abc import Iterator, Sequence
from typing import NoReturn

from ottla.errors import CorruptLog, LogOffline, PeerError
from ottla.metadata.entry_codec import CorruptEntry, decode, encode
from ottla.metadata.records import Record
from ottla.metadata.store import Entry
from ottla.protocol import batch as batches
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import Clock
from ottla.seams.files import Files, write_all
from ottla.storage.directory.checkpoint_files import RECOVERY_POINTS, read_offsets, write_offsets
from ottla.storage.log import retention
from ottla.storage.log.config import UNLIMITED, LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.file_slice import FileSlice
from ottla.storage.log.flush import Flush
from ottla.storage.opening.recovery import open_log

PARTITION = TopicPartition("__ottla_metadata", 0)
READ_BYTES_MAX = 1 << 20
SEGMENT_BYTES = 64 << 20

# There is one writer: the leader epochs of this log are not used.
_LEADER_EPOCH = 0
_CONFIG = LogConfig(
    segment_bytes=SEGMENT_BYTES,
    segment_ms=UNLIMITED,
    # Entries are read sequentially and need no index. Without one a flush writes nothing, so a full
    # disk cannot fail it between the append of an entry and its commit.
    index_interval_bytes=SEGMENT_BYTES,
)


class EntryLog:
    """See the module. No method awaits. A full disk is an OSError: then nothing has changed.

    An entry is appended in steps, so that a thread can wait for the disk: `save_recovery_point` if
    there is an `unsaved_recovery_point`, then `begin`, then `run` of the returned flush, then
    `end`, or `fail` if the disk failed. One entry at a time.
    """

    __slots__ = ("_clock", "_files", "_log", "_recovery_point_path", "_saved_recovery_point")

    def __init__(self, files: Files, directory: str, clock: Clock, first_offset: int) -> None:
        """Opens the log in an existing directory; entries before `first_offset` are not needed.

        CorruptLog if a committed entry is missing.
        """
        self._files = files
        self._clock = clock
        self._recovery_point_path = f"{directory}/{RECOVERY_POINTS}"
        saved_offsets = read_offsets(files, self._recovery_point_path)
        self._saved_recovery_point = saved_offsets.get(PARTITION, 0)
        self._log, _ = open_log(
            FilePool(files),
            directory,
            _CONFIG,
            is_clean=False,
            recovery_point=self._saved_recovery_point,
            start_offset=first_offset,
            clock=clock,
            checkpoint=self._checkpoint,
        )
        if self._log.start_offset > first_offset:
            raise CorruptLog(
                directory,
                0,
                f"entry {first_offset} is missing, the log starts at {self._log.start_offset}",
            )
        self._rewrite_last()
        self._log.flush()

    @property
    def next_offset(self) -> int:
        """The offset after the last committed entry."""
        return self._log.recovery_point

    @property
    def unsaved_recovery_point(self) -> int | None:
        """The recovery point that must be saved before the next entry is written."""
        point = self._log.recovery_point
        return None if point == self._saved_recovery_point else point

    def save_recovery_point(self, point: int) -> None:
        """Durable on return. Does not change this object, so it may be called in a thread."""
        write_offsets(self._files, self._recovery_point_path, {PARTITION: point})

    def recovery_point_saved(self, point: int) -> None:
        """`save_recovery_point` has returned."""
        self._saved_recovery_point = point

    def begin(self, records: Sequence[Record]) -> Flush:
        """Writes an entry; the returned flush commits it. EntryTooLarge or OSError on failure."""
        now_ms = self._clock.wall_ms()
        record = batches.Record(offset=0, timestamp=now_ms, key=None, value=encode(records))
        batch = batches.build([record])
        self._log.append(batch, batches.read_header(batch), leader_epoch=_LEADER_EPOCH)
        try:
            return self._log.begin_flush()
        except OSError as error:
            self.fail(error)

    def end(self, flush: Flush) -> int:
        """The flush has run: the entry is committed. Returns its offset."""
        self._log.end_flush(flush)
        return flush.end_offset - 1

    def fail(self, error: OSError) -> NoReturn:
        """The flush failed. The entry is written but not committed: no other may follow it.

        Raises LogOffline: only the next opening can tell whether the entry is durable.
        """
        self._log.fail(error)

    def read(self, from_offset: int) -> list[Entry]:
        """Some committed entries from `from_offset` on; empty if there are none yet."""
        if self._log.offline is not None:
            raise LogOffline(f"{self._log.directory}: {self._log.offline}") from self._log.offline
        if from_offset >= self.next_offset:
            return []
        found = self._log.read(from_offset, bytes_max=READ_BYTES_MAX, end_offset=self.next_offset)
        entries = list(_entries(found, from_offset)) if found else []
        if not entries:
            raise CorruptLog(self._log.directory, 0, f"entry {from_offset} is missing")
        return entries

    def drop_below(self, first_offset: int) -> None:
        """Removes whole segments before `first_offset`, whose entries are no longer needed."""
        self._log.roll()
        self._log.advance_start(first_offset)
        count = retention.below_start(self._log.summaries(), log_start_offset=first_offset)
        for path in self._log.drop_segments(count):
            self._files.remove(path)

    def abandon(self) -> None:
        """Closes the files without writing to them."""
        self._log.abandon()

    def close(self) -> None:
        is_online = self._log.offline is None
        self._log.close()
        if is_online:
            self._checkpoint()

    def _rewrite_last(self) -> None:
        """Rewrites the entry above the recovery point in place.

        It may exist only in the page cache. If its sync failed, the kernel considers it clean:
        another sync would succeed without writing it.
        """
        offset = max(self._saved_recovery_point, self._log.start_offset)
        found = self._log.read(offset, bytes_max=READ_BYTES_MAX)
        if found:
            write_all(found.file, found.position, [found.read()])

    def _checkpoint(self) -> None:
        """Saves the recovery point: entries below it must exist after a crash.

        The start offset is not saved: it is given as `first_offset` when the log is opened.
        """
        point = self.unsaved_recovery_point
        if point is not None:
            self.save_recovery_point(point)
            self.recovery_point_saved(point)


def _entries(found: FileSlice, offset: int) -> Iterator[Entry]:
    """The complete entries of a slice, the first one at `offset`."""
    content = found.read()
    position = 0
    while len(content) - position >= batches.HEADER_BYTES:
        header = batches.read_header(content, position)
        if position + header.size > len(content):
            return
        try:
            yield Entry(offset, _records(content, position, header, offset))
        except (PeerError, CorruptEntry) as error:
            path = found.file.path
            raise CorruptLog(path, found.position + position, f"entry {offset}: {error}") from None
        position += header.size
        offset += 1


def _records(
    content: bytes, position: int, header: batches.BatchHeader, offset: int
) -> tuple[Record, ...]:
    if not batches.crc_is_valid(content, header, position):
        raise CorruptEntry("", "the checksum is wrong")
    rows = list(batches.records(content, position))
    if len(rows) != 1 or rows[0].offset != offset or rows[0].value is None:
        raise CorruptEntry("", "this is no entry of metadata")
    return decode(rows[0].value)
