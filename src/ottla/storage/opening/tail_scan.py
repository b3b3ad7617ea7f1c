"""Recovery of a log after a crash: reads every batch beyond the recovery point, cuts damage."""

from collections.abc import Callable
from typing import NamedTuple

from ottla.errors import CorruptLog
from ottla.protocol.batch import HEADER_BYTES, read_header
from ottla.storage.log.batch_scan import BatchWalk, Placed
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.log.segment import LOG, Segment


class Recovery(NamedTuple):
    """The result of a recovery."""

    scanned_bytes: int = 0
    cut_bytes: int = 0
    cut_segments: int = 0
    cut_because: str | None = None
    # The cut bytes were one unfinished batch at the end, as a killed process may leave it.
    is_torn_write: bool = False


class TailScan:
    """Scans segments beyond the recovery point, and finds the log end offset."""

    def __init__(self, recovery_point: int, start_offset: int, cleaned_offset: int) -> None:
        self.recovery_point = recovery_point
        self._holes_end = max(recovery_point, cleaned_offset)
        self.end_offset = start_offset
        self.scanned_bytes = 0
        self.epochs: list[EpochEntry] = []
        # Whether all segments were scanned.
        self.is_of_all = False
        # Flushed segments without an index. Their other indexes may be missing, too.
        self.unindexed: list[Segment] = []

    def may_begin(self, segment: Segment) -> bool:
        """Whether a segment follows the end of the scan, or a gap that compaction left."""
        return self.end_offset <= segment.base_offset <= max(self.end_offset, self._holes_end)

    def misplaced(self, segment: Segment) -> CorruptLog:
        return self._judge(
            CorruptLog(segment.path(LOG), 0, f"offset {self.end_offset} should begin here")
        )

    def read(self, segment: Segment) -> CorruptLog | None:
        """Indexes the batches of a segment again. Returns the damage that it met, if any."""
        end = segment.size_bytes
        self.end_offset = segment.base_offset
        if segment.base_offset < self.recovery_point and not segment.has_indexes:
            self.unindexed.append(segment)
        walk = segment.walk(segment.forget_from(self.recovery_point), end=end)
        try:
            for placed in walk:
                self._check(walk, placed)
                segment.note(placed.position, placed.header)
                self.end_offset = placed.header.next_offset
        except CorruptLog as damage:
            return self._judge(damage)
        return None

    def _judge(self, damage: CorruptLog) -> CorruptLog:
        """Raises damage below the recovery point: flushed records are not truncated."""
        if self.end_offset < self.recovery_point:
            raise damage
        return damage

    def _check(self, walk: BatchWalk, placed: Placed) -> None:
        header = placed.header
        latest_epoch = self.epochs[-1].epoch if self.epochs else -1
        if header.base_offset < self.end_offset:
            # The checksum does not cover the offset: this finds a torn write of the prefix.
            raise CorruptLog(walk.path, placed.position, f"it should be offset {self.end_offset}")
        if header.base_offset >= self.recovery_point:
            self.scanned_bytes += header.size
            if not walk.crc_is_valid(placed):
                raise CorruptLog(walk.path, placed.position, "the batch's checksum is wrong")
            if header.partition_leader_epoch < latest_epoch:
                raise CorruptLog(walk.path, placed.position, "an older leader's batch follows")
        if header.partition_leader_epoch > latest_epoch:
            # The epoch starts where the one before it ended.
            self.epochs.append(EpochEntry(header.partition_leader_epoch, self.end_offset))


def recover(
    segments: list[Segment],
    first: int,
    scan: TailScan,
    on_damage: Callable[[], None] = lambda: None,
) -> Recovery:
    """Scans the segments from `first` on, and truncates the log at the first damage.

    `on_damage` is called before more than a torn write is truncated.
    """
    if segments[0].base_offset > scan.end_offset:
        return _cut(segments, 0, scan.misplaced(segments[0]), on_damage)
    scan.end_offset = segments[first].base_offset
    scan.is_of_all = first == 0
    cut = Recovery()
    for index in range(first, len(segments)):
        segment = segments[index]
        if not scan.may_begin(segment):
            cut = _cut(segments, index, scan.misplaced(segment), on_damage)
            break
        damage = scan.read(segment)
        if damage:
            cut = _cut(segments, index + 1, damage, on_damage)
            break
        if index + 1 < len(segments):
            segment.seal()
    if scan.end_offset < scan.recovery_point:
        raise CorruptLog(
            segments[-1].path(LOG),
            segments[-1].size_bytes,
            f"offset {scan.end_offset} is missing, though all was flushed to {scan.recovery_point}",
        )
    # An unsynced truncation of a crashed process must not be undone under later appends.
    segments[-1].file.sync()
    return cut._replace(scanned_bytes=scan.scanned_bytes)


def _cut(
    segments: list[Segment], kept: int, damage: CorruptLog, on_damage: Callable[[], None]
) -> Recovery:
    """Keeps `kept` segments, the last of them up to its last indexed batch."""
    later = segments[kept:]
    cut_bytes = sum(segment.file.size() for segment in later)
    is_torn_write = kept > 0 and not later and _ends_in_batch(segments[kept - 1])
    if not is_torn_write:
        on_damage()
    if kept:
        cut_bytes += segments[kept - 1].cut_to_noted()
    for segment in later:
        segment.remove()
    del segments[kept:]
    return Recovery(
        cut_bytes=cut_bytes,
        cut_segments=len(later),
        cut_because=str(damage),
        is_torn_write=is_torn_write,
    )


def _ends_in_batch(segment: Segment) -> bool:
    """Whether the file ends within the batch behind the last indexed one."""
    rest = segment.file.size() - segment.size_bytes
    if rest < HEADER_BYTES:
        return True
    header = memoryview(bytearray(segment.file.read_at(segment.size_bytes, HEADER_BYTES)))
    return rest < read_header(header).size
