"""The progress of streaming queries, parsed from Spark's reports."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

# Spark's watermark before the first event.
_UNSET = "1970-01-01T00:00:00.000Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """One batch of a query.

    `lag` is the number of offsets after the batch when it ended; None if the source does not report
    it. All windows before `watermark` are complete; it is None before the first event. `late` rows
    arrived after their windows were complete. `observed` are the query's own counts.
    """

    query: str
    batch: int
    rows: int
    rows_per_s: float
    batch_ms: int
    lag: int | None
    watermark: datetime | None
    late: int
    observed: Mapping[str, int]


class ProgressWatch:
    """Reports each batch of some queries once."""

    def __init__(self, queries: Sequence[StreamingQuery]) -> None:
        self._queries = queries
        self._last_reported: dict[str, int] = {}

    def new(self) -> Iterator[BatchProgress]:
        """The batches since the last call; none of a query that waits for records.

        Spark keeps the last hundred batches, so call this more often.
        """
        for query in self._queries:
            run = str(query.runId)
            for reported in query.recentProgress:
                found = json.loads(reported.json)
                # A waiting query reports its next batch repeatedly, without addBatch.
                is_new = found["batchId"] > self._last_reported.get(run, -1)
                if is_new and "addBatch" in found["durationMs"]:
                    self._last_reported[run] = found["batchId"]
                    yield read_progress(found)


def read_progress(reported: Mapping[str, Any]) -> BatchProgress:
    """Parses the JSON of Spark's StreamingQueryProgress."""
    watermark = datetime.fromisoformat(reported.get("eventTime", {}).get("watermark", _UNSET))
    observed = reported.get("observedMetrics", {})
    return BatchProgress(
        query=reported.get("name") or reported["id"],
        batch=reported["batchId"],
        rows=reported["numInputRows"],
        rows_per_s=reported.get("processedRowsPerSecond") or 0.0,
        batch_ms=reported["durationMs"].get("triggerExecution", 0),
        lag=_lag(reported["sources"]),
        watermark=watermark if watermark.timestamp() else None,
        late=sum(each["numRowsDroppedByWatermark"] for each in reported["stateOperators"]),
        observed={name: count for row in observed.values() for name, count in row.items()},
    )


def _lag(sources: Sequence[Mapping[str, Any]]) -> int | None:
    lag = 0
    for source in sources:
        latest, end = source.get("latestOffset"), source.get("endOffset")
        if not isinstance(latest, dict) or not isinstance(end, dict):
            return None
        for topic, offsets in latest.items():
            done = end.get(topic, {})
            lag += sum(max(0, offset - done.get(each, 0)) for each, offset in offsets.items())
    return lag
