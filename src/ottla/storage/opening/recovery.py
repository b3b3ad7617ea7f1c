"""Opening a log: what is on disk, checked as far as it must be, becomes a Log.

After a clean shutdown everything is trusted. Otherwise the recovery point divides the log: what
lies below it was flushed and is never cut by itself (damage there is a CorruptLog, and somebody has
to look at it); what lies beyond it is read batch by batch, and cut where it stops making sense.
"""

from collections.abc import Callable
from typing import NamedTuple

from ottla.errors import CorruptLog
from ottla.protocol.primitives import OFFSET_MAX
from ottla.seams.clock import Clock
from ottla.seams.files import Files, read_file, replace_file
from ottla.storage.compaction.segment_swap import CLEANED, SWAP, settle_compaction
from ottla.storage.log import leader_epochs as epoch_file
from ottla.storage.log.batch_scan import BatchWalk, Placed
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.log.log import DELETED, Log
from ottla.storage.log.segment import LOG, OFFSETS, TIMES, Segment
from ottla.storage.log.state import LogState
from ottla.storage.opening.unsynced_tail import is_distrusted, trust_again, write_again
from ottla.storage.producers.snapshot_files import rebuild_producers

# What a crash leaves in the middle of: a removal, a compaction's output, a file being replaced.
LEFTOVERS = (DELETED, CLEANED, ".tmp")
UNFINISHED = (*LEFTOVERS, SWAP)


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
    start_offset: int | None = None,
    cleaned_offset: int = 0,
    clock: Clock,
    checkpoint: Callable[[], None],
) -> Opened:
    """The log in `directory`, an empty one if nothing is there. CorruptLog if it cannot be.

    Where nobody wrote down its `start_offset`, a log starts with its first segment. Below
    `cleaned_offset` it was compacted.
    """
    files = pool.files
    holes_end = cleaned_offset
    if any(name.endswith(UNFINISHED) for name in files.list(directory)):
        holes_end = max(cleaned_offset, settle_compaction(files, directory))
        _remove_leftovers(files, directory)
    segments, start_offset = _find_segments(pool, directory, config, start_offset)
    if recovery_point < start_offset:
        # What was flushed is trimmed since: of the rest nothing was promised.
        recovery_point = 0
    scan = _TailScan(recovery_point, start_offset, holes_end)
    is_trusted = is_clean and not is_distrusted(files, directory)
    if is_trusted:
        recovery = Recovery()
        unindexed = _trust(files, segments)
        recovery_point = scan.end_offset = segments[-1].find_end()
    else:
        recovery, unindexed = _recover_tail(files, directory, segments, recovery_point, scan)
    epochs = _load_epochs(files, directory, segments, scan)
    is_lost = not segments or scan.end_offset < start_offset
    if is_lost:
        # What was trimmed is durable; what was to stay was not yet, and is gone.
        _restart(segments, Segment.create(pool, directory, start_offset, config))
        scan.end_offset = start_offset
        unindexed = []
    recovery_point = min(recovery_point, scan.end_offset)
    is_saved = _save_epochs(files, directory, epochs, start_offset, scan.end_offset)
    state = LogState(
        segments=segments,
        epochs=epochs,
        producers=rebuild_producers(
            files,
            directory,
            segments,
            start_offset,
            scan.end_offset,
            trusted_offset=min([recovery_point, *(each.base_offset for each in unindexed)]),
            producers_max=config.producers_max,
        ),
        start_offset=start_offset,
        end_offset=scan.end_offset,
        recovery_point=recovery_point,
        # What a dead process wrote may be in the page cache alone.
        saved_epoch=epochs.latest_epoch if is_trusted or is_saved else -1,
        cleaned_offset=min(cleaned_offset, scan.end_offset),
    )
    for segment in unindexed:
        segment.sync_indexes()
    if is_lost or not is_clean:
        # A clean stop left durable names. One that was made since is synced by the first flush, and
        # one that was removed and comes back is removed again.
        files.sync_dir(directory)
    log = Log(pool, directory, config, state, clock=clock, checkpoint=checkpoint)
    return Opened(log, recovery)


def _trust(files: Files, segments: list[Segment]) -> list[Segment]:
    """Takes all of them as they are; those whose indexes had to be made anew."""
    for segment in segments:
        segment.trust()
    return _mend_indexes(files, segments, len(segments))


def _recover_tail(
    files: Files, directory: str, segments: list[Segment], recovery_point: int, scan: "_TailScan"
) -> tuple[Recovery, list[Segment]]:
    """Reads what lies beyond the recovery point; what was found, and as `_trust`."""
    trusted = _count_trusted(segments, recovery_point)
    unindexed = _mend_indexes(files, segments, trusted)
    recovery = _recover(segments, trusted, scan)
    if is_distrusted(files, directory):
        write_again(segments[trusted:], recovery_point)
        trust_again(files, directory)
    return recovery, [*unindexed, *scan.unindexed]


def segment_offsets(files: Files, directory: str) -> list[int]:
    """The base offsets of the segments that are there, rising."""
    names = (name.removesuffix(LOG) for name in files.list(directory) if name.endswith(LOG))
    return sorted(int(name) for name in names if name.isdecimal())


def _find_segments(
    pool: FilePool, directory: str, config: LogConfig, start_offset: int | None
) -> tuple[list[Segment], int]:
    """The segments that are there, at least one, and where the log starts."""
    segments = [
        Segment(pool, directory, base_offset, config)
        for base_offset in segment_offsets(pool.files, directory)
    ]
    if start_offset is None:
        start_offset = segments[0].base_offset if segments else 0
    segments = segments or [Segment.create(pool, directory, start_offset, config)]
    _drop_trimmed(segments, start_offset)
    return segments, start_offset


def _remove_leftovers(files: Files, directory: str) -> None:
    for name in files.list(directory):
        if name.endswith(LEFTOVERS):
            files.remove(f"{directory}/{name}")


def _drop_trimmed(segments: list[Segment], start_offset: int) -> None:
    """Removes what lies before the start of the log: a crash may have brought back a part of it."""
    while len(segments) > 1 and segments[1].base_offset <= start_offset:
        segments.pop(0).remove()


def _restart(segments: list[Segment], empty: Segment) -> None:
    while segments:
        segments.pop().remove()
    segments.append(empty)


def _count_trusted(segments: list[Segment], recovery_point: int) -> int:
    """How many segments, from the front, need not be read again.

    One that ends at the recovery point is not among them: it may have been sealed, or cut there,
    after the flush.
    """
    trusted = 0
    while trusted + 1 < len(segments) and segments[trusted + 1].base_offset < recovery_point:
        trusted += 1
    return trusted


def _mend_indexes(files: Files, segments: list[Segment], trusted: int) -> list[Segment]:
    """Makes indexes that are missing, or cannot be right, anew from the headers; of which segments.

    Only where the log can be trusted; the rest is read again anyway.
    """
    mended = []
    ends = [following.base_offset for following in segments[1:]] + [OFFSET_MAX]
    for segment, end_offset in zip(segments[:trusted], ends, strict=False):
        if not _indexes_fit(files, segment, end_offset):
            segment.rebuild_indexes()
            mended.append(segment)
    return mended


def _indexes_fit(files: Files, segment: Segment, end_offset: int) -> bool:
    if not segment.has_indexes:
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


class _TailScan:
    """Reads what lies beyond the recovery point, segment by segment, and says where it ends."""

    def __init__(self, recovery_point: int, start_offset: int, cleaned_offset: int) -> None:
        self.recovery_point = recovery_point
        self._holes_end = max(recovery_point, cleaned_offset)
        self.end_offset = start_offset
        self.scanned_bytes = 0
        self.epochs: list[EpochEntry] = []
        # Whether no segment was trusted, so that every batch was seen.
        self.is_of_all = False
        # Segments that were flushed and yet lack an index: others may be missing, too.
        self.unindexed: list[Segment] = []

    def may_begin(self, segment: Segment) -> bool:
        """Whether a segment follows what was read, or only a hole that compaction left."""
        return self.end_offset <= segment.base_offset <= max(self.end_offset, self._holes_end)

    def misplaced(self, segment: Segment) -> CorruptLog:
        return self._judge(
            CorruptLog(segment.path(LOG), 0, f"offset {self.end_offset} should begin here")
        )

    def read(self, segment: Segment) -> CorruptLog | None:
        """Notes a segment's batches anew, up to its end or to the damage that is returned."""
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
        """Raised if it lies below the recovery point: what was flushed is not cut."""
        if self.end_offset < self.recovery_point:
            raise damage
        return damage

    def _check(self, walk: BatchWalk, placed: Placed) -> None:
        header = placed.header
        latest_epoch = self.epochs[-1].epoch if self.epochs else -1
        if header.base_offset < self.end_offset:
            # The checksum does not cover the offset: a write torn within the prefix shows here.
            raise CorruptLog(walk.path, placed.position, f"it should be offset {self.end_offset}")
        if header.base_offset >= self.recovery_point:
            self.scanned_bytes += header.size
            if not walk.crc_is_valid(placed):
                raise CorruptLog(walk.path, placed.position, "the batch's checksum is wrong")
            if header.partition_leader_epoch < latest_epoch:
                raise CorruptLog(walk.path, placed.position, "an older leader's batch follows")
        if header.partition_leader_epoch > latest_epoch:
            # Where the one before it ended, as the log itself counts them.
            self.epochs.append(EpochEntry(header.partition_leader_epoch, self.end_offset))


def _recover(segments: list[Segment], first: int, scan: _TailScan) -> Recovery:
    """Reads the segments from `first` on, and cuts what does not make sense."""
    if segments[0].base_offset > scan.end_offset:
        return _cut(segments, 0, scan.misplaced(segments[0]))
    scan.end_offset = segments[first].base_offset
    scan.is_of_all = first == 0
    cut = Recovery()
    for index in range(first, len(segments)):
        segment = segments[index]
        if not scan.may_begin(segment):
            cut = _cut(segments, index, scan.misplaced(segment))
            break
        damage = scan.read(segment)
        if damage:
            cut = _cut(segments, index + 1, damage)
            break
        if index + 1 < len(segments):
            segment.seal()
    if scan.end_offset < scan.recovery_point:
        raise CorruptLog(
            segments[-1].path(LOG),
            segments[-1].size_bytes,
            f"offset {scan.end_offset} is missing, though all was flushed to {scan.recovery_point}",
        )
    # A cut that a dead process did not finish must not be undone under what is appended next.
    segments[-1].file.sync()
    return cut._replace(scanned_bytes=scan.scanned_bytes)


def _cut(segments: list[Segment], kept: int, damage: CorruptLog) -> Recovery:
    """Keeps that many segments, the last of them as far as it was noted, durably."""
    later = segments[kept:]
    cut_bytes = sum(segment.file.size() for segment in later)
    if kept:
        cut_bytes += segments[kept - 1].cut_to_noted()
    for segment in later:
        segment.remove()
    del segments[kept:]
    return Recovery(cut_bytes=cut_bytes, cut_segments=len(later), cut_because=str(damage))


def _load_epochs(
    files: Files, directory: str, segments: list[Segment], scan: _TailScan
) -> LeaderEpochs:
    """The epochs of the checkpoint, or of every header if there is none, and those just seen."""
    seen = scan.epochs
    path = f"{directory}/{epoch_file.FILE_NAME}"
    try:
        epochs = LeaderEpochs.decode(read_file(files, path), path)
    except (FileNotFoundError, CorruptLog):
        epochs = LeaderEpochs()
        if not scan.is_of_all:
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


def _save_epochs(
    files: Files, directory: str, epochs: LeaderEpochs, start_offset: int, end_offset: int
) -> bool:
    """Writes the checkpoint unless it says the same: a full disk should not keep a log shut.

    Epochs without a batch are none; an empty log has nothing to write. Whether it wrote.
    """
    epochs.truncate_end(end_offset)
    epochs.truncate_start(start_offset)
    path = f"{directory}/{epoch_file.FILE_NAME}"
    saved = read_file(files, path) if files.exists(path) else LeaderEpochs().encode()
    if saved == epochs.encode():
        return False
    replace_file(files, path, epochs.encode())
    return True
