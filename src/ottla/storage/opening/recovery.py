"""Opening a log: what is on disk, checked as far as it must be, becomes a Log.

After a clean shutdown everything is trusted. Otherwise the recovery point divides the log: what
lies below it was flushed and is never cut by itself (damage there is a CorruptLog, and somebody has
to look at it); what lies beyond it is read batch by batch, and cut where it stops making sense.
"""

from collections.abc import Callable
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
from ottla.storage.opening.index_repair import mend_indexes
from ottla.storage.opening.tail_scan import Recovery, TailScan, recover
from ottla.storage.opening.unsynced_tail import is_distrusted, trust_again, write_again
from ottla.storage.producers.snapshot_files import rebuild_producers

# What a crash leaves in the middle of: a removal, a compaction's output, a file being replaced.
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
    scan = TailScan(recovery_point, start_offset, holes_end)
    is_trusted = is_clean and not is_distrusted(files, directory)
    if is_trusted:
        recovery = Recovery()
        unindexed = _trust(files, segments)
        recovery_point = scan.end_offset = segments[-1].find_end()
    else:
        recovery, unindexed = _recover_tail(files, directory, segments, scan)
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
    return mend_indexes(files, segments, len(segments))


def _recover_tail(
    files: Files, directory: str, segments: list[Segment], scan: TailScan
) -> tuple[Recovery, list[Segment]]:
    """Reads what lies beyond the recovery point; what was found, and as `_trust`."""
    trusted = _count_trusted(segments, scan.recovery_point)
    unindexed = mend_indexes(files, segments, trusted)
    recovery = recover(segments, trusted, scan)
    if is_distrusted(files, directory):
        write_again(segments[trusted:], scan.recovery_point)
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


def _load_epochs(
    files: Files, directory: str, segments: list[Segment], scan: TailScan
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
