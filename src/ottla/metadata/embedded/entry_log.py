"""Entries of metadata in a log of our own: one batch of one record each, its offset their number.

An entry is committed once it is flushed: it is shown to nobody before. Before the next one is
written the recovery point vouches for it, so that after a crash at most one entry, one that nobody
was promised, can be found torn; any other damage is a CorruptLog.
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

# One writer for ever: nobody compares this log's epochs.
_LEADER_EPOCH = 0
_CONFIG = LogConfig(
    segment_bytes=SEGMENT_BYTES,
    segment_ms=UNLIMITED,
    # Entries are read in a row, so an index has nothing to offer; and without one a flush writes
    # nothing, and a full disk cannot come between an entry and its commit.
    index_interval_bytes=SEGMENT_BYTES,
)


class EntryLog:
    """See the module. No method awaits. A full disk is an OSError, and nothing has changed.

    An entry is appended in steps, so that a thread can do what waits for the disk: `save_point` if
    there is an `unsaved_point`, then `begin`, then the `run` of what it returns, then `end`, or
    `fail` if the disk failed. One entry at a time.
    """

    __slots__ = ("_clock", "_files", "_log", "_point_path", "_point_saved")

    def __init__(self, files: Files, directory: str, clock: Clock, first_n: int) -> None:
        """Opens the log in an existing directory; nothing before `first_n` is of interest.

        CorruptLog if what was committed is not there.
        """
        self._files = files
        self._clock = clock
        self._point_path = f"{directory}/{RECOVERY_POINTS}"
        self._point_saved = read_offsets(files, self._point_path).get(PARTITION, 0)
        self._log, _ = open_log(
            FilePool(files),
            directory,
            _CONFIG,
            is_clean=False,
            recovery_point=self._point_saved,
            start_offset=first_n,
            clock=clock,
            checkpoint=self._vouch,
        )
        if self._log.start_offset > first_n:
            raise CorruptLog(
                directory,
                0,
                f"entry {first_n} is missing, the log starts at {self._log.start_offset}",
            )
        self._write_again()
        self._log.flush()

    @property
    def next_n(self) -> int:
        """The number of the first entry that is not committed."""
        return self._log.recovery_point

    @property
    def unsaved_point(self) -> int | None:
        """The recovery point that must be saved before the next entry is written."""
        point = self._log.recovery_point
        return None if point == self._point_saved else point

    def save_point(self, point: int) -> None:
        """Durable on return. Changes nothing else, so it may be called in a thread."""
        write_offsets(self._files, self._point_path, {PARTITION: point})

    def point_saved(self, point: int) -> None:
        """`save_point` has returned."""
        self._point_saved = point

    def begin(self, records: Sequence[Record]) -> Flush:
        """Writes an entry; its flush commits it. EntryTooLarge and OSError if it cannot be."""
        now_ms = self._clock.wall_ms()
        record = batches.Record(offset=0, timestamp=now_ms, key=None, value=encode(records))
        batch = batches.build([record])
        self._log.append(batch, batches.read_header(batch), leader_epoch=_LEADER_EPOCH)
        try:
            return self._log.begin_flush()
        except OSError as error:
            self.fail(error)

    def end(self, flush: Flush) -> int:
        """The flush has run: the entry is committed; its number."""
        self._log.end_flush(flush)
        return flush.end_offset - 1

    def fail(self, error: OSError) -> NoReturn:
        """The flush failed. The entry is in the log and not committed: nothing may follow it.

        Raises LogOffline: only the next opening knows whether it was committed.
        """
        self._log.fail(error)

    def read(self, from_n: int) -> list[Entry]:
        """Some committed entries from `from_n` on; none if there is none yet."""
        if self._log.offline is not None:
            raise LogOffline(f"{self._log.directory}: {self._log.offline}") from self._log.offline
        if from_n >= self.next_n:
            return []
        found = self._log.read(from_n, bytes_max=READ_BYTES_MAX, end_offset=self.next_n)
        entries = list(_entries(found, from_n)) if found else []
        if not entries:
            raise CorruptLog(self._log.directory, 0, f"entry {from_n} is missing")
        return entries

    def drop_below(self, first_n: int) -> None:
        """Nothing before `first_n` is of interest any more; whole segments of it go."""
        self._log.roll()
        self._log.advance_start(first_n)
        count = retention.below_start(self._log.summaries(), log_start_offset=first_n)
        for path in self._log.drop_segments(count):
            self._files.remove(path)

    def abandon(self) -> None:
        """Closes the files and leaves them as they are."""
        self._log.abandon()

    def close(self) -> None:
        is_online = self._log.offline is None
        self._log.close()
        if is_online:
            self._vouch()

    def _write_again(self) -> None:
        """Writes the entry for which nobody vouches yet once more, over itself.

        It may be in the page cache alone. If its sync failed, the kernel takes it for clean: a sync
        would then succeed and save nothing.
        """
        n = max(self._point_saved, self._log.start_offset)
        found = self._log.read(n, bytes_max=READ_BYTES_MAX)
        if found:
            write_all(found.file, found.position, [found.read()])

    def _vouch(self) -> None:
        """What was flushed is durably known to have been: it must be there after a crash.

        Where the log starts is not kept here: `first_n` says it, whenever the log is opened.
        """
        point = self.unsaved_point
        if point is not None:
            self.save_point(point)
            self.point_saved(point)


def _entries(found: FileSlice, n: int) -> Iterator[Entry]:
    """The entries, from number `n` on, that a slice holds whole."""
    content = found.read()
    position = 0
    while len(content) - position >= batches.HEADER_BYTES:
        header = batches.read_header(content, position)
        if position + header.size > len(content):
            return
        try:
            yield Entry(n, _records(content, position, header, n))
        except (PeerError, CorruptEntry) as error:
            path = found.file.path
            raise CorruptLog(path, found.position + position, f"entry {n}: {error}") from None
        position += header.size
        n += 1


def _records(
    content: bytes, position: int, header: batches.BatchHeader, n: int
) -> tuple[Record, ...]:
    if not batches.crc_is_valid(content, header, position):
        raise CorruptEntry("", "the checksum is wrong")
    rows = list(batches.records(content, position))
    if len(rows) != 1 or rows[0].offset != n or rows[0].value is None:
        raise CorruptEntry("", "this is no entry of metadata")
    return decode(rows[0].value)
