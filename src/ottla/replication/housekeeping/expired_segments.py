"""Decides which segments of a log retention drops, and whether the active segment rolls first."""

from typing import NamedTuple

from ottla.replication.replica import Replica
from ottla.storage.log import retention
from ottla.storage.log.log import Log


class Expired(NamedTuple):
    """A log with expired segments: its new log start offset, and whether the active one rolls."""

    replica: Replica
    log: Log
    start_offset: int
    ends_active: bool

    @property
    def is_current(self) -> bool:
        """Whether it is still the partition's log: other tasks ran since the decision."""
        return self.replica.log is self.log and self.log.offline is None


def find_expired(replica: Replica, log: Log, now_ms: int) -> Expired | None:
    """The segments that retention drops. Those below the log start offset go in any case."""
    rules = replica.rules.retention
    segments = log.summaries()
    count = retention.below_start(segments, log_start_offset=log.start_offset)
    ends_active = False
    if rules.deletes:
        high_watermark, retention_ms = replica.high_watermark, rules.retention_ms
        by_time = retention.expired_by_time(
            segments, now_ms=now_ms, retention_ms=retention_ms, high_watermark=high_watermark
        )
        by_size = retention.by_size(
            segments, retention_bytes=rules.retention_bytes, high_watermark=high_watermark
        )
        count = max(count, by_time, by_size)
        ends_active = retention.active_has_expired(
            segments, now_ms=now_ms, retention_ms=retention_ms, high_watermark=high_watermark
        )
    if not count and not ends_active:
        return None
    start_offset = max(log.start_offset, segments[count].base_offset)
    return Expired(replica, log, start_offset, ends_active)
