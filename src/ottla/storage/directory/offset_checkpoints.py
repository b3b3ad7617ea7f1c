"""The offsets that the checkpoint files of a log directory hold for each partition.

These are log start offset, recovery point, cleaner offset and high watermark. This module decides
what the next checkpoint says; `checkpoint_task` writes it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.files import Files
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.checkpoint_task import (
    Checkpoint,
    CheckpointFiles,
    HighWatermarkCheckpoint,
    PlannedStart,
)
from ottla.storage.log.flush import FirstSync
from ottla.storage.log.log import Log

# The high watermark of a partition; None if this broker has no replica of it (yet).
HighWatermarkOf = Callable[[TopicPartition], int | None]


_NO_LOGS: Mapping[TopicPartition, Log] = MappingProxyType({})


class SavedOffsets(NamedTuple):
    """The offsets of one partition, with defaults for a partition that no checkpoint names."""

    recovery_point: int
    start_offset: int | None
    cleaned_offset: int
    high_watermark: int


class OffsetCheckpoints:
    """The offsets of one log directory, by partition name."""

    __slots__ = (
        "_begun",
        "_cleaned_offsets",
        "_cleaned_saved",
        "_forgotten_by",
        "_high_watermarks",
        "_high_watermarks_begun",
        "_high_watermarks_saved",
        "_place",
        "_recovery_points",
        "_start_offsets",
    )

    def __init__(self, files: Files, path: str) -> None:
        self._place = CheckpointFiles(files, path)
        self._recovery_points: dict[TopicPartition, int] = {}
        self._start_offsets: dict[TopicPartition, int] = {}
        self._cleaned_offsets: dict[TopicPartition, int] = {}
        # The cleaner offsets as the file has them: the file is rewritten only if they changed.
        self._cleaned_saved: dict[TopicPartition, int] = {}
        self._high_watermarks: dict[TopicPartition, int] = {}
        # As the file has them; None while a checkpoint that writes them is under way.
        self._high_watermarks_saved: dict[TopicPartition, int] | None = {}
        # The number of the last checkpoint that writes them.
        self._high_watermarks_begun = 0
        # The number of checkpoints begun so far.
        self._begun = 0
        # The first checkpoint that no longer names a deleted partition, until it is durable.
        self._forgotten_by: dict[TopicPartition, int] = {}

    def read(self) -> None:
        """Takes the offsets of the files. CorruptLog if one of them is garbled."""
        self._recovery_points = self._read(checkpoint_files.RECOVERY_POINTS)
        self._start_offsets = self._read(checkpoint_files.LOG_START_OFFSETS)
        self._cleaned_offsets = self._read(checkpoint_files.CLEANER_OFFSETS)
        self._cleaned_saved = dict(self._cleaned_offsets)
        self._high_watermarks = self._read(checkpoint_files.HIGH_WATERMARKS)
        self._high_watermarks_saved = dict(self._high_watermarks)

    def _read(self, name: str) -> dict[TopicPartition, int]:
        return checkpoint_files.read_offsets(self._place.files, f"{self._place.path}/{name}")

    def of(self, partition: TopicPartition) -> SavedOffsets:
        return SavedOffsets(
            recovery_point=self._recovery_points.get(partition, 0),
            start_offset=self._start_offsets.get(partition),
            cleaned_offset=self._cleaned_offsets.get(partition, 0),
            high_watermark=self._high_watermarks.get(partition, 0),
        )

    def was_never_flushed(self, partition: TopicPartition) -> bool:
        return self._recovery_points.get(partition, 0) == 0

    def is_name_free(self, partition: TopicPartition) -> bool:
        """Whether no durable checkpoint names an earlier partition of this name."""
        return self._place.written >= self._forgotten_by.get(partition, 0)

    def forget(self, partition: TopicPartition) -> None:
        """The partition was deleted. The next checkpoint makes its name free."""
        # A later partition of this name must not get the offsets of this one.
        for offsets in self._all:
            offsets.pop(partition, None)
        self._forgotten_by[partition] = self._begun + 1

    def forget_except(self, found: set[TopicPartition]) -> frozenset[TopicPartition]:
        """Only these partitions are in the directory. Returns the others that had records."""
        lost = frozenset(
            partition
            for offsets in (self._recovery_points, self._high_watermarks)
            for partition, offset in offsets.items()
            if offset > 0 and partition not in found
        )
        for offsets in self._all:
            for partition in offsets.keys() - found:
                del offsets[partition]
        return lost

    @property
    def _all(self) -> tuple[dict[TopicPartition, int], ...]:
        return (
            self._recovery_points,
            self._start_offsets,
            self._cleaned_offsets,
            self._high_watermarks,
        )

    def begin(
        self,
        logs: Mapping[TopicPartition, Log],
        high_watermark_of: HighWatermarkOf = lambda _: None,
        *,
        copies: Mapping[TopicPartition, Log] = _NO_LOGS,
    ) -> Checkpoint:
        """The next checkpoint. The planned start offsets of logs are part of it.

        Of `copies`, which are not yet in use, only the start offset is saved. Without
        `high_watermark_of` high watermarks stay as they are, unless the log ends before
        them, as after a truncation.
        """
        planned: list[PlannedStart] = []
        first_syncs: list[FirstSync] = []
        for partition, log in logs.items():
            if log.offline is None:
                self._recovery_points[partition] = log.recovery_point
                # Noted even where the first segment says the same: a crash may bring back earlier
                # segments.
                self._start_offsets[partition] = log.start_offset
                self._note_cleaned(partition, log)
                self._note_high_watermark(partition, log, high_watermark_of(partition))
                if log.planned_start is not None and log.planned_start > log.start_offset:
                    self._start_offsets[partition] = log.planned_start
                    planned.append(PlannedStart(log, log.planned_start, log.truncations))
                    if log.first_sync is not None:
                        first_syncs.append(log.first_sync)
        for partition, log in copies.items():
            self._start_offsets[partition] = log.start_offset
        self._begun += 1
        has_cleaned_news = self._cleaned_offsets != self._cleaned_saved
        return Checkpoint(
            place=self._place,
            number=self._begun,
            start_offsets=dict(self._start_offsets),
            recovery_points=dict(self._recovery_points),
            cleaned_offsets=dict(self._cleaned_offsets) if has_cleaned_news else None,
            high_watermarks=self._begin_high_watermarks(),
            has_renames=bool(self._forgotten_by),
            first_syncs=tuple(first_syncs),
            starts=tuple(planned),
        )

    def begin_high_watermarks(
        self, logs: Mapping[TopicPartition, Log], high_watermark_of: HighWatermarkOf
    ) -> HighWatermarkCheckpoint | None:
        """The next checkpoint of high watermarks alone. None if the file has the same."""
        for partition, log in logs.items():
            if log.offline is None:
                self._note_high_watermark(partition, log, high_watermark_of(partition))
        if self._high_watermarks == self._high_watermarks_saved:
            return None
        self._begun += 1
        high_watermarks = self._begin_high_watermarks() or {}
        return HighWatermarkCheckpoint(self._place, self._begun, high_watermarks)

    def _begin_high_watermarks(self) -> dict[TopicPartition, int] | None:
        """Those that the checkpoint which begins has to write. None if the file has the same."""
        if self._high_watermarks == self._high_watermarks_saved:
            return None
        self._high_watermarks_begun = self._begun
        self._high_watermarks_saved = None
        return dict(self._high_watermarks)

    def end_high_watermarks(self, checkpoint: Checkpoint | HighWatermarkCheckpoint) -> None:
        """The high watermarks of a checkpoint are durable, or later ones are."""
        saved = checkpoint.high_watermarks
        if saved is not None and checkpoint.number == self._high_watermarks_begun:
            self._high_watermarks_saved = dict(saved)

    def end(self, checkpoint: Checkpoint) -> None:
        """The checkpoint is durable: its planned starts are in force, forgotten names are free."""
        number = checkpoint.number
        for name in [name for name, first in self._forgotten_by.items() if first <= number]:
            del self._forgotten_by[name]
        for log, offset, truncations in checkpoint.starts:
            log.planned_start_is_durable(offset, truncations)
        if checkpoint.cleaned_offsets is not None:
            self._cleaned_saved = dict(checkpoint.cleaned_offsets)
        self.end_high_watermarks(checkpoint)

    def note_closed(
        self, partition: TopicPartition, log: Log, high_watermark: int | None = None
    ) -> None:
        """The log was closed: all of it is flushed. `begin` skips it from now on."""
        self._recovery_points[partition] = log.end_offset
        self._note_cleaned(partition, log)
        self._note_high_watermark(partition, log, high_watermark)

    def _note_cleaned(self, partition: TopicPartition, log: Log) -> None:
        if log.cleaned_offset or partition in self._cleaned_offsets:
            self._cleaned_offsets[partition] = log.cleaned_offset

    def _note_high_watermark(
        self, partition: TopicPartition, log: Log, high_watermark: int | None
    ) -> None:
        if high_watermark is None:
            high_watermark = self._high_watermarks.get(partition, 0)
        end_offset = log.end_offset if log.planned_end is None else log.planned_end
        high_watermark = min(high_watermark, end_offset)
        if high_watermark or partition in self._high_watermarks:
            self._high_watermarks[partition] = high_watermark
