"""Surveys the content of a log directory without changing it."""

import os
from contextlib import closing
from dataclasses import dataclass, field

from ottla.cli.shared.failure import Failure
from ottla.errors import CorruptLog, StorageError
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.protocol.topic_partition import TopicPartition
from ottla.seams.files import Files, read_file
from ottla.storage.compaction.segment_swap import SWAP
from ottla.storage.directory import checkpoint_files
from ottla.storage.directory.checkpoint_files import MetaProperties
from ottla.storage.log import leader_epochs
from ottla.storage.log.batch_scan import SCAN_WINDOW_BYTES, BatchWalk
from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.segment import LOG, segment_path
from ottla.storage.opening.recovery import segment_offsets

KAFKAS_METADATA = TopicPartition("__cluster_metadata", 0)
OUR_METADATA = TopicPartition("__ottla_metadata", 0)
# Directories that are being deleted or moved, by their suffix.
TRANSIENT_SUFFIXES = {
    "-delete": "it is being deleted",
    "-stray": "its topic was not known to the broker",
    "-future": "it was being moved here",
}


@dataclass(frozen=True, slots=True)
class SurveyedPartition:
    """A partition directory before recovery."""

    partition: TopicPartition
    path: str
    topic_id: Uuid
    size_bytes: int
    start_offset: int
    # The end of its last valid batch header.
    end_offset: int
    # The last leader's epoch, even if it wrote nothing; -1 if there was none.
    leader_epoch: int


@dataclass(slots=True)
class DirectorySurvey:
    """A log directory: its owner, its shutdown state and its content."""

    path: str
    meta: MetaProperties
    is_clean: bool
    recovery_points: dict[TopicPartition, int]
    start_offsets: dict[TopicPartition, int]
    cleaned_offsets: dict[TopicPartition, int]
    partitions: dict[TopicPartition, SurveyedPartition] = field(default_factory=dict)
    # Directories that are not partitions, and partitions that cannot be opened, with the reason.
    skipped: dict[str, str] = field(default_factory=dict)
    broken: dict[TopicPartition, str] = field(default_factory=dict)


def survey_directory(files: Files, path: str) -> DirectorySurvey:
    """Failure if this is not a log directory of Kafka; CorruptLog if its root files are damaged."""
    meta = MetaProperties.read(files, path)
    if meta is None:
        raise Failure(
            f"{path} is not a log directory",
            why=f"there is no {checkpoint_files.META_PROPERTIES} in it",
            advice="name a directory of Kafka's log.dirs",
        )
    survey = DirectorySurvey(
        path,
        meta,
        is_clean=checkpoint_files.read_clean_shutdown(files, path) is not None,
        recovery_points=_offsets(files, path, checkpoint_files.RECOVERY_POINTS),
        start_offsets=_offsets(files, path, checkpoint_files.LOG_START_OFFSETS),
        cleaned_offsets=_offsets(files, path, checkpoint_files.CLEANER_OFFSETS),
    )
    for name in files.list(path):
        if files.is_dir(f"{path}/{name}"):
            _survey_entry(files, survey, name)
    return survey


def _offsets(files: Files, path: str, name: str) -> dict[TopicPartition, int]:
    return checkpoint_files.read_offsets(files, f"{path}/{name}")


def _survey_entry(files: Files, survey: DirectorySurvey, name: str) -> None:
    partition = checkpoint_files.parse_directory_name(name)
    if partition == OUR_METADATA:
        return
    if partition == KAFKAS_METADATA:
        survey.skipped[name] = "Kafka's own metadata is not adopted"
    elif partition is None:
        reasons = [why for suffix, why in TRANSIENT_SUFFIXES.items() if name.endswith(suffix)]
        survey.skipped[name] = reasons[0] if reasons else "it is not a partition"
    else:
        try:
            survey.partitions[partition] = _survey_partition(files, survey, partition)
        except (StorageError, OSError) as error:
            survey.broken[partition] = str(error)


def _survey_partition(
    files: Files, survey: DirectorySurvey, partition: TopicPartition
) -> SurveyedPartition:
    path = f"{survey.path}/{partition}"
    names = files.list(path)
    swapped = [name for name in names if name.endswith(SWAP)]
    if swapped:
        raise CorruptLog(f"{path}/{swapped[0]}", 0, "a compaction stopped while swapping files")
    topic_id = checkpoint_files.read_partition_metadata(files, path)
    if topic_id is None or topic_id == ZERO_UUID:
        raise CorruptLog(
            f"{path}/{checkpoint_files.PARTITION_METADATA}", 0, "the topic's id is missing"
        )
    base_offsets = segment_offsets(files, path)
    first = base_offsets[0] if base_offsets else 0
    return SurveyedPartition(
        partition,
        path,
        topic_id,
        size_bytes=sum(files.size(segment_path(path, base, LOG)) for base in base_offsets),
        start_offset=max(first, survey.start_offsets.get(partition, 0)),
        end_offset=_end_of(files, path, base_offsets[-1]) if base_offsets else first,
        leader_epoch=_leader_epoch(files, path),
    )


def _leader_epoch(files: Files, path: str) -> int:
    path = f"{path}/{leader_epochs.FILE_NAME}"
    try:
        latest = LeaderEpochs.decode(read_file(files, path), path).latest
    except (FileNotFoundError, CorruptLog):
        return -1  # recovery reads it from the batches
    return latest.epoch if latest else -1


def _end_of(files: Files, path: str, base_offset: int) -> int:
    """The end of the last segment by its batch headers, without a torn tail."""
    end_offset = base_offset
    with closing(files.open(segment_path(path, base_offset, LOG), writable=False)) as file:
        walk = BatchWalk(file, 0, file.size(), SCAN_WINDOW_BYTES)
        try:
            for placed in walk:
                end_offset = placed.header.next_offset
        except CorruptLog:
            return end_offset
    return end_offset


def is_same_directory(first: str, second: str) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)
