"""Executes a repair plan. No bytes of the log are destroyed: they are kept under another name."""

import contextlib
import os
from collections.abc import Sequence
from contextlib import closing

from ottla.cli.log.broker_files import DAMAGED_SUFFIX
from ottla.cli.log.paths import recovery_points_path
from ottla.cli.log.verify.damage import Remedy
from ottla.cli.log.verify.plan import Cut, Rebuild, RepairStep, SetAside
from ottla.errors import CorruptLog
from ottla.protocol.batch import read_marker
from ottla.seams.files import Files, read_file, replace_file, write_all
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.checkpoint_files import parse_directory_name
from ottla.storage.log import leader_epochs
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.segment import (
    LOG,
    OFFSETS,
    SUFFIXES,
    TIMES,
    TRANSACTIONS,
    Segment,
    segment_path,
)
from ottla.storage.opening.recovery import segment_offsets
from ottla.storage.producers.snapshot_files import snapshot_offsets, snapshot_path
from ottla.storage.producers.state import ProducerStates

COPY_CHUNK_BYTES = 1 << 20
# Indexes are built with Kafka's defaults; a broker with denser ones adds entries.
CONFIG = LogConfig()


def repair(files: Files, steps: Sequence[RepairStep]) -> None:
    """Executes all steps. Each is durable before the next begins, and repeats are harmless."""
    pool = FilePool(files)
    for step in steps:
        match step:
            case Cut():
                _cut(pool, step)
            case SetAside():
                _set_aside(files, step.path)
            case Rebuild(directory, Remedy.LOWER_RECOVERY_POINT, _, end_offset):
                _lower_recovery_point(files, directory, end_offset or 0)
            case Rebuild(directory, Remedy.REWRITE_EPOCHS):
                _rewrite_epochs(pool, directory)
            case Rebuild(directory, Remedy.REBUILD_ABORTED, base_offset):
                _rebuild_aborted(pool, directory, base_offset)
            case Rebuild(directory, _, base_offset):
                _rebuild_indexes(pool, directory, base_offset or 0)


def _set_aside(files: Files, path: str) -> None:
    """Renames a file to an unused name with the suffix of damaged files."""
    target = f"{path}{DAMAGED_SUFFIX}"
    number = 1
    while files.exists(target):
        number += 1
        target = f"{path}.{number}{DAMAGED_SUFFIX}"
    files.rename(path, target)
    files.sync_dir(os.path.dirname(path))


def _cut(pool: FilePool, cut: Cut) -> None:
    files = pool.files
    # First: a recovery point above the cut would cover batches that are appended there later.
    _lower_recovery_point(files, cut.directory, cut.end_offset)
    for base_offset in reversed(cut.dropped):
        for suffix in SUFFIXES:
            path = segment_path(cut.directory, base_offset, suffix)
            if files.exists(path):
                _set_aside(files, path)
    for offset in snapshot_offsets(files, cut.directory):
        if offset > cut.end_offset:
            _set_aside(files, snapshot_path(cut.directory, offset))
    if cut.base_offset not in cut.dropped:
        _cut_segment(pool, cut)
    _truncate_epochs(files, cut)
    files.sync_dir(cut.directory)


def _cut_segment(pool: FilePool, cut: Cut) -> None:
    path = segment_path(cut.directory, cut.base_offset, LOG)
    _copy_tail(pool.files, path, cut.position)
    segment = Segment(pool, cut.directory, cut.base_offset, CONFIG)
    segment.aborted.keep_valid(cut.end_offset)
    segment.file.truncate(cut.position)
    segment.file.sync()
    _rebuild_indexes(pool, cut.directory, cut.base_offset)


def _copy_tail(files: Files, path: str, position: int) -> None:
    """Copies the bytes that will be cut, durably, to another file."""
    target = f"{path}.{position}{DAMAGED_SUFFIX}"
    with contextlib.suppress(FileNotFoundError):
        files.remove(target)  # left by an interrupted repair
    with (
        closing(files.open(path, writable=False)) as source,
        closing(files.create(target)) as copy,
    ):
        while chunk := source.read_at(position + copy.size(), COPY_CHUNK_BYTES):
            write_all(copy, copy.size(), [chunk])
        copy.sync()
    files.sync_dir(os.path.dirname(path))


def _lower_recovery_point(files: Files, directory: str, end_offset: int) -> None:
    """Lowers the recovery point in the checkpoint, if there is one."""
    partition = parse_directory_name(os.path.basename(directory))
    path = recovery_points_path(files, directory)
    if partition is None or not files.exists(path):
        return
    points = checkpoint_files.read_offsets(files, path)
    if points.get(partition, 0) > end_offset:
        checkpoint_files.write_offsets(files, path, points | {partition: end_offset})


def _truncate_epochs(files: Files, cut: Cut) -> None:
    path = f"{cut.directory}/{leader_epochs.FILE_NAME}"
    # An unreadable checkpoint is a separate damage with its own step.
    with contextlib.suppress(FileNotFoundError, CorruptLog):
        found = LeaderEpochs.decode(read_file(files, path), path)
        if found.truncate_end(cut.end_offset):
            replace_file(files, path, found.encode())


def _rewrite_epochs(pool: FilePool, directory: str) -> None:
    found = LeaderEpochs()
    for base_offset in segment_offsets(pool.files, directory):
        for placed in Segment(pool, directory, base_offset, CONFIG).walk():
            epoch, latest = placed.header.partition_leader_epoch, found.latest
            if epoch >= 0 and (latest is None or latest.epoch < epoch):
                found.assign(epoch, placed.header.base_offset)
    replace_file(pool.files, f"{directory}/{leader_epochs.FILE_NAME}", found.encode())


def _rebuild_indexes(pool: FilePool, directory: str, base_offset: int) -> None:
    """Rebuilds the indexes from the batch headers into new files, ignoring the old ones."""
    _remove(pool, directory, base_offset, (OFFSETS, TIMES))
    segment = Segment(pool, directory, base_offset, CONFIG)
    segment.rebuild_indexes()
    segment.seal()
    segment.offsets.file.sync()
    segment.times.file.sync()
    pool.files.sync_dir(directory)


def _rebuild_aborted(pool: FilePool, directory: str, wanted: int | None) -> None:
    """Replays the partition, and rebuilds the transaction index of one segment."""
    files = pool.files
    base_offsets = segment_offsets(files, directory)
    producers = ProducerStates(base_offsets[0])
    for base_offset in base_offsets:
        if base_offset == wanted:
            _remove(pool, directory, base_offset, (TRANSACTIONS,))
        segment = Segment(pool, directory, base_offset, CONFIG)
        walk = segment.walk()
        for placed in walk:
            header = placed.header
            has_marker = header.is_control and header.count > 0
            aborted = producers.replay(
                header, read_marker(walk.batch(placed)) if has_marker else None
            )
            if aborted and base_offset == wanted:
                segment.aborted.add(aborted)
        if base_offset == wanted:
            segment.aborted.write()
            segment.aborted.file.sync()
    files.sync_dir(directory)


def _remove(pool: FilePool, directory: str, base_offset: int, suffixes: Sequence[str]) -> None:
    for suffix in suffixes:
        path = segment_path(directory, base_offset, suffix)
        pool.forget(path)
        with contextlib.suppress(FileNotFoundError):
            pool.files.remove(path)
