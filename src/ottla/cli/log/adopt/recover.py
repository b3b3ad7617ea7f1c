"""Opens each adopted partition once, so that what is taken over is known to be whole."""

from dataclasses import dataclass
from typing import NamedTuple

from ottla.cli.log.adopt.survey import Survey
from ottla.seams.clock import Clock
from ottla.seams.files import Files
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.checkpoint_files import TopicPartition
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.opening.recovery import open_log
from ottla.storage.opening.tail_scan import Recovery


class RecoveredPartition(NamedTuple):
    """What the metadata must know of a partition, and what recovery did to it."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    # -1 if nothing was ever written.
    leader_epoch: int
    producer_id_max: int
    recovery: Recovery


@dataclass(slots=True)
class Points:
    """The recovery points and start offsets of a log directory, of all its partitions."""

    files: Files
    directory: str
    recovery_points: dict[TopicPartition, int]
    start_offsets: dict[TopicPartition, int]

    @classmethod
    def of(cls, files: Files, directory: str) -> "Points":
        read = checkpoint_files.read_offsets
        return cls(
            files,
            directory,
            read(files, f"{directory}/{checkpoint_files.RECOVERY_POINTS}"),
            read(files, f"{directory}/{checkpoint_files.LOG_START_OFFSETS}"),
        )

    def write(self) -> None:
        """Durable on return; the starts first: a recovery point never lies before its log."""
        for name, offsets in (
            (checkpoint_files.LOG_START_OFFSETS, self.start_offsets),
            (checkpoint_files.RECOVERY_POINTS, self.recovery_points),
        ):
            checkpoint_files.write_offsets(self.files, f"{self.directory}/{name}", offsets)


def recover(
    files: Files, points: Points, found: Survey, partition: TopicPartition, clock: Clock
) -> RecoveredPartition:
    """Recovers a partition as a broker would, and closes it again. CorruptLog if it cannot be.

    Its points are those of the survey, and afterwards in `points`; the caller writes them.
    """
    log, recovery = open_log(
        FilePool(files),
        f"{points.directory}/{partition}",
        LogConfig(),
        is_clean=found.is_clean,
        recovery_point=found.recovery_points.get(partition, 0),
        start_offset=found.start_offsets.get(partition),
        cleaned_offset=found.cleaned_offsets.get(partition, 0),
        clock=clock,
        checkpoint=points.write,
    )
    producer_id_max = max(
        (placed.header.producer_id for segment in log.segments for placed in segment.walk()),
        default=-1,
    )
    latest = log.epochs.latest
    log.close()
    points.recovery_points[partition] = log.end_offset
    if log.start_offset > log.segments[0].base_offset:
        points.start_offsets[partition] = log.start_offset
    return RecoveredPartition(
        partition,
        log.start_offset,
        log.end_offset,
        latest.epoch if latest else -1,
        producer_id_max,
        recovery,
    )
