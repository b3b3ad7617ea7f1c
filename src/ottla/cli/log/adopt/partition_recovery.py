"""Recovers each adopted partition once, so that only readable partitions are adopted."""

from dataclasses import dataclass
from typing import NamedTuple

from ottla.cli.log.adopt.survey import DirectorySurvey
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.clock import Clock
from ottla.seams.files import Files
from ottla.storage.directory import checkpoint_files
from ottla.storage.log.config import LogConfig
from ottla.storage.log.file_pool import FilePool
from ottla.storage.opening.recovery import open_log
from ottla.storage.opening.tail_scan import Recovery


class RecoveredPartition(NamedTuple):
    """The facts about a partition that the metadata needs, and the result of its recovery."""

    partition: TopicPartition
    start_offset: int
    end_offset: int
    # -1 if nothing was ever written.
    leader_epoch: int
    producer_id_max: int
    recovery: Recovery


@dataclass(slots=True)
class DirectoryCheckpoints:
    """The recovery points and log start offsets of all partitions of a log directory."""

    files: Files
    directory: str
    recovery_points: dict[TopicPartition, int]
    start_offsets: dict[TopicPartition, int]

    @classmethod
    def of(cls, files: Files, directory: str) -> "DirectoryCheckpoints":
        read = checkpoint_files.read_offsets
        return cls(
            files,
            directory,
            read(files, f"{directory}/{checkpoint_files.RECOVERY_POINTS}"),
            read(files, f"{directory}/{checkpoint_files.LOG_START_OFFSETS}"),
        )

    def write(self) -> None:
        """Durable on return. Start offsets are written first: a recovery point must not lie before
        its log's start."""
        for name, offsets in (
            (checkpoint_files.LOG_START_OFFSETS, self.start_offsets),
            (checkpoint_files.RECOVERY_POINTS, self.recovery_points),
        ):
            checkpoint_files.write_offsets(self.files, f"{self.directory}/{name}", offsets)


def recover_partition(
    files: Files,
    checkpoints: DirectoryCheckpoints,
    survey: DirectorySurvey,
    partition: TopicPartition,
    clock: Clock,
) -> RecoveredPartition:
    """Recovers a partition as a broker would, and closes it. CorruptLog if it cannot be recovered.

    Reads its offsets from the survey and updates them in `checkpoints`, which the caller writes.
    """
    log, recovery = open_log(
        FilePool(files),
        f"{checkpoints.directory}/{partition}",
        LogConfig(),
        is_clean=survey.is_clean,
        recovery_point=survey.recovery_points.get(partition, 0),
        start_offset=survey.start_offsets.get(partition),
        cleaned_offset=survey.cleaned_offsets.get(partition, 0),
        clock=clock,
        checkpoint=checkpoints.write,
    )
    producer_id_max = max(
        (placed.header.producer_id for segment in log.segments for placed in segment.walk()),
        default=-1,
    )
    latest = log.epochs.latest
    log.close()
    checkpoints.recovery_points[partition] = log.end_offset
    if log.start_offset > log.segments[0].base_offset:
        checkpoints.start_offsets[partition] = log.start_offset
    return RecoveredPartition(
        partition=partition,
        start_offset=log.start_offset,
        end_offset=log.end_offset,
        leader_epoch=latest.epoch if latest else -1,
        producer_id_max=producer_id_max,
        recovery=recovery,
    )
