"""Opens the log of a partition directory, after a clean shutdown or a crash.

After a clean shutdown the log files are taken as they are, and only indexes that do not fit are
rebuilt. Otherwise the recovery point divides the log. Records below it were flushed: damage there
is a CorruptLog, which an operator has to repair. Records beyond it are scanned batch by batch, and
truncated at the first damage.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ottla.errors import CorruptLog
from ottla.seams.clock import Clock
from ottla.seams.files import Files, read_file, replace_file
from ottla.storage.compaction.segment_swap import CLEANED, SWAP, settle_compaction
from ottla.storage.log import leader_epochs as epoch_file
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.log.log import DELETED, Log
from ottla.storage.log.segment import LOG, Segment
from ottla.storage.log.state import LogState
from ottla.storage.opening.cut_mark import mark_cut, with_earlier_cut
from ottla.storage.opening.index_repair import mend_indexes
from ottla.storage.opening.tail_scan import Recovery, TailScan, recover
from ottla.storage.opening.unsynced_tail import is_marked_unsynced, remove_mark, rewrite_tail
from ottla.storage.producers.snapshot_files import rebuild_producers

# Files that a crash leaves: deleted segments, outputs of compactions, files being replaced.
LEFTOVERS = (DELETED, CLEANED, ".tmp")
UNFINISHED = (*LEFTOVERS, SWAP)


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
    """The log in `directory`, empty if there are no files. CorruptLog if it is damaged.

    Without a `start_offset` the log starts with its first segment. `cleaned_offset` is the cleaner
    offset: the log was compacted below it.
    """
    files = pool.files
    holes_end = cleaned_offset
    if any(name.endswith(UNFINISHED) for name in files.list(directory)):
        holes_end = max(cleaned_offset, settle_compaction(files, directory))
        _remove_leftovers(files, directory)
    segments, start_offset = _find_segments(pool, directory, config, start_offset)
    if recovery_point < start_offset:
        # The flushed part was trimmed since, so nothing of the rest is known to be durable.
        recovery_point = 0
    scan = TailScan(recovery_point, start_offset, holes_end)
    is_trusted = is_clean and not is_marked_unsynced(files, directory)
    if is_trusted:
        recovery = Recovery()
        unindexed = _take_as_durable(files, segments)
        recovery_point = scan.end_offset = segments[-1].find_end()
    else:
        recovery, unindexed = _recover_tail(files, directory, segments, scan)
    epochs = _load_epochs(files, directory, segments, scan)
    is_lost = not segments or scan.end_offset < start_offset
    if is_lost:
        # The log start offset was durable, and the records beyond it were not: they are lost, or
        # there were none (`Log.restart_at`). An empty log has no epochs.
        scan.end_offset = start_offset
        epochs.truncate_end(0)
        unindexed = []
    recovery_point = min(recovery_point, scan.end_offset)
    is_saved = _save_epochs(files, directory, epochs, start_offset, scan.end_offset)
    if is_lost:
        _restart(segments, Segment.create(pool, directory, start_offset, config))
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
        # The file of a crashed process may be in the page cache only.
        saved_epoch=epochs.latest_epoch if is_trusted or is_saved else -1,
        cleaned_offset=min(cleaned_offset, scan.end_offset),
    )
    for segment in unindexed:
        segment.sync_indexes()
    if is_lost or not is_clean:
        # After a clean shutdown all names are durable. The first flush syncs new ones. A removed
        # name that comes back is removed again.
        files.sync_dir(directory)
    log = Log(pool, directory, config, state, clock=clock, checkpoint=checkpoint)
    return Opened(log, with_earlier_cut(files, directory, recovery))


def _take_as_durable(files: Files, segments: list[Segment]) -> list[Segment]:
    """Takes all segments as durable. Returns those whose indexes were rebuilt."""
    for segment in segments:
        segment.mark_synced()
    return mend_indexes(files, segments, len(segments))


def _recover_tail(
    files: Files, directory: str, segments: list[Segment], scan: TailScan
) -> tuple[Recovery, list[Segment]]:
    """Scans beyond the recovery point. Returns the result and the rebuilt segments."""
    trusted = _count_trusted(segments, scan.recovery_point)
    unindexed = mend_indexes(files, segments, trusted)
    recovery = recover(segments, trusted, scan, partial(mark_cut, files, directory))
    if is_marked_unsynced(files, directory):
        rewrite_tail(segments[trusted:], scan.recovery_point)
        remove_mark(files, directory)
    return recovery, [*unindexed, *scan.unindexed]


def segment_offsets(files: Files, directory: str) -> list[int]:
    """The base offsets of the segments in a directory, ascending."""
    names = (name.removesuffix(LOG) for name in files.list(directory) if name.endswith(LOG))
    return sorted(int(name) for name in names if name.isdecimal())


def _find_segments(
    pool: FilePool, directory: str, config: LogConfig, start_offset: int | None
) -> tuple[list[Segment], int]:
    """The segments, at least one, and the log start offset."""
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
    """Removes segments below the log start offset: a crash may have brought some back."""
    while len(segments) > 1 and segments[1].base_offset <= start_offset:
        segments.pop(0).remove()


def _restart(segments: list[Segment], empty: Segment) -> None:
    while segments:
        segments.pop().remove()
    segments.append(empty)


def _count_trusted(segments: list[Segment], recovery_point: int) -> int:
    """The number of segments, from the front, that need no scan.

    A segment that ends at the recovery point needs one: it may have been sealed or truncated after
    the flush.
    """
    trusted = 0
    while trusted + 1 < len(segments) and segments[trusted + 1].base_offset < recovery_point:
        trusted += 1
    return trusted


def _load_epochs(
    files: Files, directory: str, segments: list[Segment], scan: TailScan
) -> LeaderEpochs:
    """The epochs of the checkpoint, or of all headers without one, and those of the scan."""
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
    """Writes the checkpoint if it changed. Returns whether it wrote.

    A log without changes can be opened on a full disk. Epochs without a batch are dropped.
    """
    epochs.truncate_end(end_offset)
    epochs.truncate_start(start_offset)
    path = f"{directory}/{epoch_file.FILE_NAME}"
    saved = read_file(files, path) if files.exists(path) else LeaderEpochs().encode()
    if saved == epochs.encode():
        return False
    replace_file(files, path, epochs.encode())
    return True
