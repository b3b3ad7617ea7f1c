"""How far queries have come: what Spark reports after each batch, as one value."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

# How Spark writes that no event was seen yet.
_UNSET = "1970-01-01T00:00:00.000Z"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchProgress:
    """One batch of a query.

    `lag` is what the topics had beyond it when it ended, None where the source does not tell.
    Before `watermark` all windows are written; it is None until there was an event.
    `late` rows came too late for their windows; `observed` are the counts that the query keeps.
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
    """Tells each batch of some queries once, as it is asked."""

    def __init__(self, queries: Sequence[StreamingQuery]) -> None:
        self._queries = queries
        self._told: dict[str, int] = {}

    def new(self) -> Iterator[BatchProgress]:
        """What has been done since the last call; of a query that waits for records, nothing.

        Spark remembers the last hundred batches: ask more often than that.
        """
        for query in self._queries:
            run = str(query.runId)
            for reported in query.recentProgress:
                found = json.loads(reported.json)
                # While it waits it reports the batch that will come next, again and again.
                if found["batchId"] > self._told.get(run, -1) and "addBatch" in found["durationMs"]:
                    self._told[run] = found["batchId"]
                    yield read_progress(found)


def read_progress(reported: Mapping[str, Any]) -> BatchProgress:
    """From the JSON of Spark's StreamingQueryProgress."""
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
