"""The part of a log that the cleaner may compact, and the job that compacts it. Does no I/O."""

from dataclasses import dataclass
from itertools import pairwise

from ottla.replication.replica import TopicRules
from ottla.storage.compaction import rules as compaction_rules
from ottla.storage.compaction.cleaner_protocol import CleaningJob
from ottla.storage.compaction.rules import Cleanable, CompactionRules, LatestBatches
from ottla.storage.log.log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerRules:
    """The broker's `log.cleaner.*` settings."""

    is_enabled: bool = True
    backoff_ms: int = 15_000
    key_map_bytes_max: int = 128 << 20
    key_map_load_factor: float = 0.9
    window_bytes: int = 512 << 10
    bytes_per_second: float = 1.7976931348623157e308


def find_cleanable(log: Log, rules: CompactionRules, stable_offset: int, now_ms: int) -> Cleanable:
    """The cleanable part of a log: clean and dirty bytes below `stable_offset`."""
    found = compaction_rules.cleanable(
        log.summaries(),
        rules,
        cleaned_offset=log.cleaned_offset,
        start_offset=log.start_offset,
        end_offset_max=min(stable_offset, log.recovery_point),
        now_ms=now_ms,
    )
    if rules.max_lag_ms >= now_ms or not found.dirty_bytes:
        return found
    times = (
        segment.first_timestamp_ms or 0
        for segment, following in pairwise(log.segments)
        if following.base_offset > found.first_dirty_offset
        and segment.base_offset < found.end_offset
    )
    return found._replace(overdue_ms=compaction_rules.overdue_ms(times, rules, now_ms))


def cleaning_job(
    log: Log, found: Cleanable, topic: TopicRules, rules: CleanerRules, now_ms: int
) -> CleaningJob:
    """The job for the cleaner process."""
    config = log.config
    return CleaningJob(
        directory=log.directory,
        segments=[
            (segment.base_offset, following.base_offset, segment.size_bytes)
            for segment, following in pairwise(log.segments)
            if segment.base_offset < found.end_offset
        ],
        first_dirty_offset=found.first_dirty_offset,
        # The indexes of the segments hold those that end within them.
        aborted_later=log.aborted_transactions(found.end_offset, found.end_offset),
        producers=[(entry.producer_id, *LatestBatches.of(entry)) for entry in log.producers],
        now_ms=now_ms,
        delete_retention_ms=topic.compaction.delete_retention_ms,
        segment_bytes=config.segment_bytes,
        index_bytes_max=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        decompressed_bytes_max=topic.admission.decompressed_bytes_max,
        key_map_bytes_max=rules.key_map_bytes_max,
        key_map_load_factor=rules.key_map_load_factor,
        window_bytes=rules.window_bytes,
        bytes_per_second=rules.bytes_per_second,
    )
