"""A log as a search by time sees it: batches by what their headers claim."""

from ottla.storage.log import Log
from ottla.storage.time_search import LatestClaim, StoredBatch, Unfinished


class LogTimes:
    """A `TimedLog`. Each call looks at the log as it then is."""

    def __init__(self, log: Log) -> None:
        self._log = log

    @property
    def start_offset(self) -> int:
        return self._log.start_offset

    @property
    def largest_claim_ms(self) -> int:
        return max(segment.largest_timestamp[0] for segment in self._log.segments)

    def batch_by_time(self, timestamp_ms: int, offset: int) -> StoredBatch | Unfinished | None:
        with self._log.looking_from(offset) as segments:
            for segment in segments:
                found = segment.batch_by_time(timestamp_ms, offset)
                if found is not None:
                    return found
        return None

    def batch_at(self, offset: int) -> StoredBatch | None:
        with self._log.looking_from(offset) as segments:
            for segment in segments:
                found = segment.batch_at(offset)
                if found is not None:
                    return found
        return None

    def latest_claim(self, offset: int) -> tuple[LatestClaim | None, Unfinished | None]:
        with self._log.looking_from(offset) as segments:
            claim, unfinished = segments[0].latest_claim(offset)
            if unfinished is None and len(segments) > 1:
                unfinished = Unfinished(segments[1].base_offset)
            return claim, unfinished
