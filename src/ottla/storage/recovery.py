"""Opening a log: what is on disk, checked as far as it must be, becomes a Log.

After a clean shutdown everything is trusted. Otherwise the recovery point divides the log: what
lies below it was flushed and is never cut by itself (damage there is a CorruptLog, and somebody has
to look at it); what lies beyond it is read batch by batch, and cut where it stops making sense.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from ottla.errors import CorruptLog
from ottla.seams.files import Files, read_file, replace_file
from ottla.storage import epochs as epoch_file
from ottla.storage.config import LogConfig
from ottla.storage.epochs import EpochEntry, LeaderEpochs
from ottla.storage.file_pool import FilePool
from ottla.storage.log import DELETED, Log, LogState
from ottla.storage.scan import BatchWalk, Placed
from ottla.storage.segment import LOG, OFFSETS, TIMES, Segment
from ottla.storage.snapshots import rebuild_producers

# What a crash leaves in the middle of: a removal, a compaction's output, a file being replaced.
LEFTOVERS = (DELETED, ".cleaned", ".tmp")
# A compaction's output that was about to take the place of what it was made from.
SWAP = ".swap"


class Recovery(NamedTuple):
    """What opening found and did."""

    scanned_bytes: int = 0
    cut_bytes: int = 0
    cut_segments: int = 0
    cut_because: str | None = None


class Opened(NamedTuple):
    log: Log
    recovery: Recovery


def open_log(
    pool: FilePool,
    directory: str,
    config: LogConfig,
    *,
    is_clean: bool,
    recovery_point: int = 0,
    start_offset: int = 0,
    now_ms: int,
    checkpoint: Callable[[], None],
) -> Opened:
    """The log in `directory`, an empty one if nothing is there. CorruptLog if it cannot be."""
    files = pool.files
    _remove_leftovers(files, directory)
    segments = [
        Segment(pool, directory, base_offset, config)
        for base_offset in segment_offsets(files, directory)
    ] or [Segment.create(pool, directory, start_offset, config)]
    trusted_offset = segments[-1].base_offset if is_clean else recovery_point
    _mend_indexes(files, segments, trusted_offset)
    seen: list[EpochEntry] = []
    if is_clean:
        recovery_point = end_offset = _end_of(segments[-1])
        recovery = Recovery()
    else:
        end_offset, seen, recovery = _recover(segments, recovery_point)
    epochs = _load_epochs(files, directory, segments, seen)
    start_offset = max(start_offset, segments[0].base_offset)
    if start_offset > end_offset:
        # What was trimmed is durable; what was to stay was not yet, and is gone.
        while segments:
            segments.pop().remove()
        segments.append(Segment.create(pool, directory, start_offset, config))
        end_offset = start_offset
    state = LogState(
        segments=segments,
        epochs=epochs,
        producers=rebuild_producers(
            files,
            directory,
            segments,
            start_offset,
            end_offset,
            trusted_offset=min(recovery_point, end_offset),
        ),
        start_offset=start_offset,
        end_offset=end_offset,
        recovery_point=min(recovery_point, end_offset),
    )
    if epochs.truncate_end(end_offset) | epochs.truncate_start(start_offset) | bool(seen):
        replace_file(files, f"{directory}/{epoch_file.FILE_NAME}", epochs.encode())
    files.sync_dir(directory)
    log = Log(pool, directory, config, state, now_ms=now_ms, checkpoint=checkpoint)
    return Opened(log, recovery)


def segment_offsets(files: Files, directory: str) -> list[int]:
    """The base offsets of the segments that are there, rising."""
    names = (name.removesuffix(LOG) for name in files.list(directory) if name.endswith(LOG))
    return sorted(int(name) for name in names if name.isdecimal())


def _remove_leftovers(files: Files, directory: str) -> None:
    for name in files.list(directory):
        if name.endswith(SWAP):
            raise CorruptLog(f"{directory}/{name}", 0, "a compaction stopped while swapping files")
        if name.endswith(LEFTOVERS):
            files.remove(f"{directory}/{name}")


def _mend_indexes(files: Files, segments: list[Segment], trusted_offset: int) -> None:
    """Indexes that are missing, or cannot be right, are made anew from the headers.

    Only where the log can be trusted; the rest is read again anyway.
    """
    for segment, following in pairwise(segments):
        if following.base_offset > trusted_offset:
            break
        if not _indexes_fit(files, segment, following.base_offset):
            segment.rebuild_indexes()
            segment.seal()


def _indexes_fit(files: Files, segment: Segment, end_offset: int) -> bool:
    if not (files.exists(segment.path(OFFSETS)) and files.exists(segment.path(TIMES))):
        return False
    if files.size(segment.path(OFFSETS)) % 8 or files.size(segment.path(TIMES)) % 12:
        return False
    if len(segment.offsets):
        relative, position = segment.offsets[len(segment.offsets) - 1]
        if not (0 <= relative < end_offset - segment.base_offset and position < segment.size_bytes):
            return False
    if segment.size_bytes and not len(segment.times):
        return False
    return segment.base_offset <= segment.times.last[1] < max(end_offset, segment.base_offset + 1)


def _end_of(segment: Segment) -> int:
    """Where a segment that is whole ends."""
    end_offset = segment.base_offset
    last = segment.offsets[len(segment.offsets) - 1][1] if len(segment.offsets) else 0
    for placed in segment.walk(last):
        end_offset = placed.header.next_offset
    return end_offset


class _TailScan:
    """Reads what lies beyond the recovery point, segment by segment, and says where it ends."""

    def __init__(self, recovery_point: int, start_offset: int) -> None:
        self._recovery_point = recovery_point
        self.end_offset = start_offset
        self.scanned_bytes = 0
        self.epochs: list[EpochEntry] = []

    def read(self, segment: Segment) -> CorruptLog | None:
        """Notes a segment's batches anew, up to its end or to the damage that is returned.

        CorruptLog is raised where the damage lies below the recovery point.
        """
        end = segment.size_bytes
        walk = segment.walk(segment.forget_from(self._recovery_point), end=end)
        try:
            if segment.base_offset > self.end_offset:
                raise CorruptLog(walk.path, 0, f"offset {self.end_offset} should begin here")
            for placed in walk:
                self._check(walk, placed)
                segment.note(placed.position, placed.header)
                self.end_offset = placed.header.next_offset
        except CorruptLog as damage:
            if self.end_offset < self._recovery_point:
                raise
            return damage
        return None

    def _check(self, walk: BatchWalk, placed: Placed) -> None:
        header = placed.header
        latest_epoch = self.epochs[-1].epoch if self.epochs else -1
        if header.base_offset >= self._recovery_point:
            self.scanned_bytes += header.size
            if not walk.crc_is_valid(placed):
                raise CorruptLog(walk.path, placed.position, "the batch's checksum is wrong")
            if header.partition_leader_epoch < latest_epoch:
                raise CorruptLog(walk.path, placed.position, "an older leader's batch follows")
        if header.partition_leader_epoch > latest_epoch:
            self.epochs.append(EpochEntry(header.partition_leader_epoch, header.base_offset))


def _recover(
    segments: list[Segment], recovery_point: int
) -> tuple[int, list[EpochEntry], Recovery]:
    """Cuts what does not make sense; where the log then ends, and the epochs that were seen."""
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset <= recovery_point:
        first += 1
    scan = _TailScan(recovery_point, segments[first].base_offset)
    cut = Recovery()
    for index in range(first, len(segments)):
        damage = scan.read(segments[index])
        if damage:
            cut = _cut(segments, index, damage)
            break
        if index + 1 < len(segments):
            segments[index].seal()
    if scan.end_offset < recovery_point:
        path = segments[-1].path(LOG)
        raise CorruptLog(
            path,
            segments[-1].size_bytes,
            f"offset {scan.end_offset} is missing, though the log was flushed to {recovery_point}",
        )
    return scan.end_offset, scan.epochs, cut._replace(scanned_bytes=scan.scanned_bytes)


def _cut(segments: list[Segment], index: int, damage: CorruptLog) -> Recovery:
    """Cuts the segment after what was noted of it, and all that follow, durably."""
    later = segments[index + 1 :]
    segment = segments[index]
    cut_bytes = segment.cut_to_noted() + sum(other.size_bytes for other in later)
    for other in later:
        other.remove()
    del segments[index + 1 :]
    return Recovery(cut_bytes=cut_bytes, cut_segments=len(later), cut_because=str(damage))


def _load_epochs(
    files: Files, directory: str, segments: list[Segment], seen: list[EpochEntry]
) -> LeaderEpochs:
    """The epochs of the checkpoint, or of every header if there is none, and those just seen."""
    path = f"{directory}/{epoch_file.FILE_NAME}"
    try:
        epochs = LeaderEpochs.decode(read_file(files, path), path)
    except (FileNotFoundError, CorruptLog):
        epochs = LeaderEpochs()
        seen = [
            EpochEntry(placed.header.partition_leader_epoch, placed.header.base_offset)
            for segment in segments
            for placed in segment.walk()
        ]
    for epoch, start_offset in seen:
        latest = epochs.latest
        if epoch > (latest.epoch if latest else -1):
            epochs.assign(epoch, start_offset)
    return epochs
