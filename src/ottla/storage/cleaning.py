"""One compaction, from a log's segments to `.cleaned` files beside them. It changes no segment.

It reads the dirty part for the latest offset of each key, then writes one output for each group of
segments, synced, its name included. `Log.replace_segments` then puts it in their place. It is for a
process of its own: it blocks, and it takes as long as it takes.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.errors import CorruptLog, PeerError
from ottla.native.build import copy_records
from ottla.native.keymap import GOES, SLOT_BYTES, STAYS, STAYS_AS_TOMBSTONE, KeyMap
from ottla.native.scan import KeyColumns, key_columns
from ottla.protocol.batch import (
    BatchHeader,
    MarkerKind,
    crc_is_valid,
    plain_records,
    read_header,
    read_marker,
    repack,
)
from ottla.seams.files import Buffer, Files
from ottla.storage.cleaning_job import CleaningJob, CleaningReport, Output
from ottla.storage.compaction import (
    BatchJudge,
    Judgement,
    LatestBatches,
    Source,
    group_segments,
)
from ottla.storage.config import LogConfig
from ottla.storage.file_pool import FilePool
from ottla.storage.index import TransactionIndex
from ottla.storage.producer_state import AbortedTransaction
from ottla.storage.scan import BatchWalk
from ottla.storage.segment import LOG, OFFSETS, TRANSACTIONS, Segment, segment_path
from ottla.storage.swaps import CLEANED, remove_incomplete

# An index entry holds its position in 31 bits for Kafka.
OUTPUT_BYTES_MAX = 2**31 - 1
# A guess: with smaller records the map grows.
RECORD_BYTES_EXPECTED = 64
OPEN_FILES_MAX = 16

# Told of every byte that is read or written; may take its time.
Spend = Callable[[int], None]


class _Batch(NamedTuple):
    """A batch that was read, and where."""

    path: str
    position: int
    header: BatchHeader
    content: bytes

    def marker(self) -> MarkerKind | None:
        if not self.header.is_control or self.header.count == 0:
            return None
        try:
            found = read_marker(self.content)
        except PeerError as error:
            raise self.corrupt(str(error)) from error
        return found.kind if found else None

    def records(self, decompressed_bytes_max: int) -> tuple[Buffer, KeyColumns]:
        """Its records, unfolded, and their columns. CorruptLog where they cannot be read."""
        try:
            body = plain_records(self.content, decompressed_bytes_max=decompressed_bytes_max)
            return body, key_columns(body, self.header.count)
        except (PeerError, ValueError) as error:
            raise self.corrupt(str(error)) from error

    def corrupt(self, reason: str) -> CorruptLog:
        return CorruptLog(self.path, self.position, reason)


@dataclass(slots=True)
class Cleaning:
    """`outputs` does the work, one output at a time; then `report` tells of it."""

    files: Files
    job: CleaningJob
    # Under which keys are hashed.
    secret: bytes
    spend: Spend
    report: CleaningReport = field(default_factory=CleaningReport)

    def outputs(self) -> Iterator[Output]:
        """Makes one output after another; between two of them the first may be put in place.

        CorruptLog if the log cannot be read, OSError if the disk does not do as asked.
        """
        job = self.job
        remove_incomplete(self.files, job.directory)
        judge = self._judge()
        keys = self._read_keys(judge)
        sources = [self._source(*each) for each in job.segments if each[0] < self.report.end_offset]
        for group in group_segments(
            sources, segment_bytes=job.segment_bytes, index_bytes_max=job.index_bytes_max
        ):
            yield self._write_output(group, keys, judge)

    def _source(self, base_offset: int, end_offset: int, size_bytes: int) -> Source:
        index = segment_path(self.job.directory, base_offset, OFFSETS)
        index_bytes = self.files.size(index) if self.files.exists(index) else 0
        return Source(base_offset, end_offset, size_bytes, index_bytes)

    def _judge(self) -> BatchJudge:
        pool = FilePool(self.files, OPEN_FILES_MAX, writable=False)
        aborted = [AbortedTransaction(*fields) for fields in self.job.aborted_later]
        for base_offset, _, _ in self.job.segments:
            path = segment_path(self.job.directory, base_offset, TRANSACTIONS)
            if self.files.exists(path):
                aborted += TransactionIndex(pool, path).entries()
        producers = {
            producer_id: LatestBatches(epoch, tuple(offsets))
            for producer_id, epoch, offsets in self.job.producers
        }
        return BatchJudge(aborted, producers, self.job.now_ms)

    # Reading

    def _read_keys(self, judge: BatchJudge) -> KeyMap:
        """The latest offset of each key in as much of the dirty part as the map has room for."""
        job, report = self.job, self.report
        dirty = [each for each in job.segments if each[1] > job.first_dirty_offset]
        dirty_bytes = sum(size_bytes for _, _, size_bytes in dirty)
        keys = KeyMap(
            self.secret,
            max(job.key_map_bytes_max, 2 * SLOT_BYTES),
            keys_expected=dirty_bytes // RECORD_BYTES_EXPECTED,
            load_factor=job.key_map_load_factor,
        )
        keys.cover(job.first_dirty_offset - 1)
        report.end_offset = job.end_offset
        for base_offset, _, size_bytes in dirty:
            if not self._read_segment_keys(base_offset, size_bytes, keys, judge):
                report.end_offset = keys.latest_offset + 1
                break
        report.map_utilization = keys.utilization
        report.keys = len(keys)
        return keys

    def _read_segment_keys(
        self, base_offset: int, size_bytes: int, keys: KeyMap, judge: BatchJudge
    ) -> bool:
        """Whether all of its keys were taken in."""
        first_dirty = self.job.first_dirty_offset
        for batch in self._batches(base_offset, size_bytes):
            header = batch.header
            if header.last_offset < first_dirty:
                continue
            if not header.is_control and header.count and not judge.is_aborted(header):
                body, columns = batch.records(self.job.decompressed_bytes_max)
                if not keys.put(body, columns, header.base_offset, first_dirty):
                    return False
            keys.cover(header.last_offset)
        return True

    def _batches(self, base_offset: int, size_bytes: int) -> Iterator[_Batch]:
        """The batches of a segment, each checked against its CRC."""
        path = segment_path(self.job.directory, base_offset, LOG)
        file = self.files.open(path, writable=False)
        try:
            walk = BatchWalk(file, 0, size_bytes, self.job.window_bytes)
            for placed in walk:
                batch = _Batch(path, placed.position, placed.header, walk.batch(placed))
                if not crc_is_valid(batch.content, batch.header):
                    raise batch.corrupt("the batch's checksum is wrong")
                self.report.read_bytes += batch.header.size
                self.spend(batch.header.size)
                yield batch
        finally:
            file.close()

    # Writing

    def _write_output(self, group: Sequence[Source], keys: KeyMap, judge: BatchJudge) -> Output:
        directory, base_offset = self.job.directory, group[0].base_offset
        config = LogConfig(index_interval_bytes=self.job.index_interval_bytes)
        pool = FilePool(self.files, OPEN_FILES_MAX)
        output = Segment.create(pool, directory, base_offset, config, ending=CLEANED)
        batches = (
            batch for each in group for batch in self._batches(each.base_offset, each.size_bytes)
        )
        for batch, is_last in _with_last(batches):
            judgement = judge.judge(batch.header, batch.marker(), is_last=is_last)
            left = self._what_is_left(batch, judgement, keys)
            if left is not None:
                self._append(output, batch, left)
            if judgement.aborted is not None:
                output.aborted.add(judgement.aborted)
        output.make_durable()
        pool.forget_below(directory)
        self.files.sync_dir(directory)
        return Output([source.base_offset for source in group], output.size_bytes)

    def _append(self, output: Segment, batch: _Batch, left: Buffer) -> None:
        if output.size_bytes + len(left) > OUTPUT_BYTES_MAX:
            raise batch.corrupt("what is left of this segment is too large for one")
        output.append((left,), read_header(left))
        self.report.written_bytes += len(left)
        self.spend(len(left))

    def _what_is_left(self, batch: _Batch, judgement: Judgement, keys: KeyMap) -> Buffer | None:
        """The batch as it is, or with fewer records or none; None if it goes."""
        header = batch.header
        if header.count == 0 or judgement.drops_records:
            return self._emptied(header, judgement)
        body, columns = batch.records(self.job.decompressed_bytes_max)
        horizon_ms = header.delete_horizon_ms
        if header.is_control:
            stays = bytearray([STAYS]) * header.count
            needs_horizon = judgement.is_idle_marker
        else:
            is_over = horizon_ms is not None and horizon_ms <= self.job.now_ms
            stays = keys.judge(body, columns, header.base_offset, is_over)
            needs_horizon = STAYS_AS_TOMBSTONE in stays
        goes = stays.count(GOES)
        if goes == header.count:
            return self._emptied(header, judgement)
        if needs_horizon and horizon_ms is None:
            horizon_ms = self.job.now_ms + self.job.delete_retention_ms
        if goes == 0 and horizon_ms == header.delete_horizon_ms:
            return batch.content
        self.report.records_dropped += goes
        return _with_fewer(header, body, columns, stays, horizon_ms)

    def _emptied(self, header: BatchHeader, judgement: Judgement) -> Buffer | None:
        self.report.records_dropped += header.count
        if not judgement.stays_when_empty:
            return None
        max_timestamp = header.max_timestamp
        return repack(header, b"", count=0, max_timestamp=max_timestamp, delete_horizon_ms=None)


def _with_fewer(
    header: BatchHeader,
    body: Buffer,
    columns: KeyColumns,
    stays: bytearray,
    delete_horizon_ms: int | None,
) -> bytearray:
    shift = 0 if delete_horizon_ms is None else header.base_timestamp - delete_horizon_ms
    copied = copy_records(body, columns, stays, shift)
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = header.base_timestamp + copied.max_timestamp_delta
    return repack(
        header,
        copied.body,
        count=copied.row_count,
        max_timestamp=max_timestamp,
        delete_horizon_ms=delete_horizon_ms,
    )


def _with_last(batches: Iterable[_Batch]) -> Iterator[tuple[_Batch, bool]]:
    """Each batch, and whether none follows."""
    held: _Batch | None = None
    for batch in batches:
        if held is not None:
            yield held, False
        held = batch
    if held is not None:
        yield held, True
