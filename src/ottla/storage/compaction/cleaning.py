"""One compaction: reads segments and writes `.cleaned` files beside them. Changes no segment.

It maps each key of the dirty part to its latest offset, then writes one synced output per group of
segments. `Log.replace_segments` swaps the output in. It blocks, so it runs in the cleaner process.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ottla.native.batches import Left, copy_batches
from ottla.native.keymap import ALL_GO, ALL_STAY, ALL_STAY_A_WHILE, SLOT_BYTES, KeyMap
from ottla.protocol.batch import compress_records
from ottla.seams.files import Files
from ottla.storage.compaction.cleaned_segment import CleanedSegment
from ottla.storage.compaction.cleaner_protocol import CleaningJob, CleaningReport, Output
from ottla.storage.compaction.rules import BatchJudge, LatestBatches, Source, group_segments
from ottla.storage.compaction.segment_swap import CLEANED, remove_incomplete
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.index import TransactionIndex
from ottla.storage.log.segment import LOG, OFFSETS, TRANSACTIONS, segment_path
from ottla.storage.log.segment_reader import Piece, UnreadableRecords, pieces
from ottla.storage.producers.state import AbortedTransaction

# Kafka reads the position of an index entry as 31 bits.
OUTPUT_BYTES_MAX = 2**31 - 1
# An estimate for the first size of the key map, which grows.
RECORD_BYTES_EXPECTED = 64
OPEN_FILES_MAX = 16

# Called with the bytes of every read and write; may sleep to throttle.
Spend = Callable[[int], None]


@dataclass(slots=True)
class Cleaning:
    """`outputs` does the work, one output at a time. `report` has the statistics."""

    files: Files
    job: CleaningJob
    # The secret of the key hash.
    secret: bytes
    spend: Spend
    report: CleaningReport = field(default_factory=CleaningReport)

    def outputs(self) -> Iterator[Output]:
        """Writes one output after another. Each may be swapped in before the next is asked for.

        CorruptLog if a segment is damaged, OSError if the disk fails.
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
        """Maps each key to its latest offset, for as much of the dirty part as fits the map."""
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
        """Whether all keys of the segment fit the map."""
        first_dirty = self.job.first_dirty_offset
        for piece in self._pieces(base_offset, size_bytes):
            batches = piece.batches
            if batches.next_offset <= first_dirty:
                continue
            for index in batches.special:
                header = piece.header(index)
                if header.is_control or judge.is_aborted(header):
                    batches.verdicts[index] = ALL_GO
            if not self._put_keys(piece, keys):
                return False
        return True

    def _put_keys(self, piece: Piece, keys: KeyMap) -> bool:
        """Whether all keys fit the map. Unreadable records count as having none."""
        try:
            plain = piece.unfolded(self.job.decompressed_bytes_max)
            columns = plain.columns()
        except UnreadableRecords:
            if len(piece.batches.verdicts) > 1:
                return all(self._put_keys(each, keys) for each in piece.split())
        else:
            if not keys.put(plain.content, columns, self.job.first_dirty_offset):
                return False
        keys.cover(piece.batches.next_offset - 1)
        return True

    def _pieces(self, base_offset: int, size_bytes: int) -> Iterator[Piece]:
        """A segment from start to end, throttled."""
        job = self.job
        file = self.files.open(segment_path(job.directory, base_offset, LOG), writable=False)
        try:
            for piece in pieces(file, size_bytes, job.window_bytes, job.now_ms):
                self.report.read_bytes += piece.size_bytes
                self.spend(piece.size_bytes)
                yield piece
        finally:
            file.close()

    # Writing

    def _write_output(self, group: Sequence[Source], keys: KeyMap, judge: BatchJudge) -> Output:
        directory, base_offset = self.job.directory, group[0].base_offset
        config = LogConfig(index_interval_bytes=self.job.index_interval_bytes)
        pool = FilePool(self.files, OPEN_FILES_MAX)
        output = CleanedSegment.create(pool, directory, base_offset, config, ending=CLEANED)
        found = (
            piece for each in group for piece in self._pieces(each.base_offset, each.size_bytes)
        )
        for piece, is_last in _with_last(found):
            for aborted in _judge_special(piece, judge):
                output.aborted.add(aborted)
            if is_last:
                judge.keep(piece.batches.next_offset - 1)
            for each, left in self._what_is_left(piece, keys, judge):
                self._append(output, each, left)
        output.make_durable()
        pool.forget_below(directory)
        self.files.sync_dir(directory)
        return Output([source.base_offset for source in group], output.size_bytes)

    def _what_is_left(
        self, piece: Piece, keys: KeyMap, judge: BatchJudge
    ) -> Iterator[tuple[Piece, Left]]:
        """The remaining batches of each piece: unchanged, with fewer records, or empty if they must
        stay. A batch whose records cannot be read is kept unchanged.
        """
        try:
            yield piece, self._left_of(piece, keys, judge)
        except UnreadableRecords as error:
            if len(piece.batches.verdicts) > 1:
                for each in piece.split():
                    yield from self._what_is_left(each, keys, judge)
                return
            self.report.unreadable_batches += 1
            self.report.unreadable = f"{piece.path}, byte {piece.position}: {error}"
            yield piece, piece.as_it_is()

    def _left_of(self, piece: Piece, keys: KeyMap, judge: BatchJudge) -> Left:
        plain = piece.unfolded(self.job.decompressed_bytes_max)
        columns = plain.columns()
        starts, verdicts = plain.batches.starts, plain.batches.verdicts
        stays = keys.judge(plain.content, columns, verdicts)
        horizon_ms = self.job.now_ms + self.job.delete_retention_ms
        try:
            left = copy_batches(plain.content, starts, columns, stays, judge.kept, horizon_ms)
        except ValueError as error:
            raise UnreadableRecords(str(error)) from error
        if not left.content or not piece.is_compressed:
            return left
        content = compress_records(left.content) if left.changed else bytearray(piece.content)
        return left._replace(content=content, sizes=[len(content)])

    def _append(self, output: CleanedSegment, piece: Piece, left: Left) -> None:
        self.report.records_dropped += left.records_dropped
        if not left.content:
            return
        if output.size_bytes + len(left.content) > OUTPUT_BYTES_MAX:
            raise piece.corrupt("the remaining batches are too large for one segment")
        output.append_batches(left)
        self.report.written_bytes += len(left.content)
        self.spend(len(left.content))


def _judge_special(piece: Piece, judge: BatchJudge) -> Iterator[AbortedTransaction]:
    """Decides about transactional and control batches; yields aborted transactions to index."""
    verdicts = piece.batches.verdicts
    for index in piece.batches.special:
        header = piece.header(index)
        judgement = judge.judge(header, piece.marker(index))
        if judgement.drops_records:
            verdicts[index] = ALL_GO
        elif header.is_control:
            verdicts[index] = ALL_STAY_A_WHILE if judgement.is_idle_marker else ALL_STAY
        if judgement.aborted is not None:
            yield judgement.aborted


def _with_last(found: Iterable[Piece]) -> Iterator[tuple[Piece, bool]]:
    """Each piece, and whether it is the last."""
    held: Piece | None = None
    for piece in found:
        if held is not None:
            yield held, False
        held = piece
    if held is not None:
        yield held, True
