"""Verifies a log directory: the files at its root, then every partition."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ottla.cli.log.paths import LogPath, LogPathKind, partition_paths, recovery_points_path
from ottla.cli.log.progress import progress_of
from ottla.cli.log.verify.damage import Damage, Effect, Remedy, ShutdownState
from ottla.cli.log.verify.partition import PartitionReport, check_partition
from ottla.errors import CorruptLog
from ottla.metadata.embedded.snapshot_file import read_snapshot
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.files import Files
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.checkpoint_files import MetaProperties, parse_directory_name
from ottla.storage.log.segment import LOG, segment_path
from ottla.storage.opening.recovery import segment_offsets

CheckpointOffsets = dict[TopicPartition, int]


@dataclass(slots=True)
class Report:
    """The verified partitions, and the damage found."""

    log_directory: str | None
    partitions: list[PartitionReport] = field(default_factory=list)
    root_damages: list[Damage] = field(default_factory=list)

    def damages(self) -> Iterator[Damage]:
        yield from self.root_damages
        for partition in self.partitions:
            yield from partition.damages

    @property
    def damages_count(self) -> int:
        unlisted = sum(partition.damages_unlisted for partition in self.partitions)
        return sum(1 for _ in self.damages()) + unlisted

    @property
    def batches_count(self) -> int:
        return sum(segment.batches for one in self.partitions for segment in one.segments)


def verify_path(files: Files, log_path: LogPath) -> Report:
    """Checks a partition or a whole log directory."""
    report = Report(log_path.log_directory)
    shutdown_state = _read_shutdown_states(files, report)
    paths = [log_path.path]
    if log_path.kind is LogPathKind.LOG_DIRECTORY:
        paths = partition_paths(files, log_path.path)
    with progress_of("verifying", _log_bytes(files, paths)) as advance:
        for path in paths:
            report.partitions.append(check_partition(files, path, shutdown_state(path), advance))
    return report


def _log_bytes(files: Files, paths: list[str]) -> int:
    return sum(
        files.size(segment_path(path, base_offset, LOG))
        for path in paths
        for base_offset in segment_offsets(files, path)
    )


def _read_shutdown_states(files: Files, report: Report) -> Callable[[str], ShutdownState]:
    """Reads the root files, and returns a function from a partition's path to its state."""
    directory = report.log_directory
    if directory is None:
        return lambda _: ShutdownState()
    is_clean = checkpoint_files.read_clean_shutdown(files, directory) is not None
    common_points = f"{directory}/{checkpoint_files.RECOVERY_POINTS}"
    recovery_points = _read_offsets(files, report, common_points)
    start_offsets, cleaned_offsets, _ = (
        _read_offsets(files, report, f"{directory}/{name}")
        for name in (
            checkpoint_files.LOG_START_OFFSETS,
            checkpoint_files.CLEANER_OFFSETS,
            checkpoint_files.HIGH_WATERMARKS,
        )
    )
    try:
        MetaProperties.read(files, directory)
    except CorruptLog as damage:
        report.root_damages.append(Damage.of(damage, Effect.REFUSES_DIRECTORY, Remedy.NONE))

    def shutdown_state(path: str) -> ShutdownState:
        name = parse_directory_name(os.path.basename(path))
        if name is None:
            return ShutdownState()
        points_path = recovery_points_path(files, path)
        if points_path != common_points:
            # A log with its own recovery point is recovered at every start.
            own_point = _read_offsets(files, report, points_path).get(name, 0)
            start_offset = _start_after_snapshot(files, report, path)
            return ShutdownState(
                is_clean=False, recovery_point=own_point, start_offset=start_offset
            )
        return ShutdownState(
            is_clean=is_clean,
            recovery_point=recovery_points.get(name, 0),
            start_offset=start_offsets.get(name, 0),
            cleaned_offset=cleaned_offsets.get(name, 0),
        )

    return shutdown_state


def _start_after_snapshot(files: Files, report: Report, path: str) -> int:
    """The start of the metadata log: its snapshot replaces all entries before it."""
    try:
        snapshot = read_snapshot(files, path)
    except CorruptLog as damage:
        report.root_damages.append(Damage.of(damage, Effect.REFUSES_DIRECTORY, Remedy.NONE))
        return 0
    return snapshot.offset + 1 if snapshot else 0


def _read_offsets(files: Files, report: Report, path: str) -> CheckpointOffsets:
    try:
        return checkpoint_files.read_offsets(files, path)
    except CorruptLog as damage:
        effect = Effect.UNDETECTED
        if path.endswith((checkpoint_files.RECOVERY_POINTS, checkpoint_files.LOG_START_OFFSETS)):
            effect = Effect.REFUSES_DIRECTORY
        report.root_damages.append(Damage.of(damage, effect, Remedy.SET_ASIDE))
        return {}
