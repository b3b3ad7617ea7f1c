"""Parsing of Spark's progress reports."""

from datetime import UTC, datetime
from typing import Any

import pytest

from ottla.spark.progress import read_progress

REPORTED: dict[str, Any] = {
    "id": "d7f3ea43",
    "name": "activity",
    "batchId": 4,
    "numInputRows": 500,
    "processedRowsPerSecond": 264.3,
    "durationMs": {"addBatch": 1500, "triggerExecution": 1891},
    "eventTime": {"watermark": "2026-01-01T12:20:21.171Z"},
    "stateOperators": [
        {"operatorName": "stateStoreSave", "numRowsDroppedByWatermark": 0},
        {"operatorName": "dedupeWithinWatermark", "numRowsDroppedByWatermark": 3},
    ],
    "sources": [
        {
            "endOffset": {"social.events": {"0": 100, "1": 50}},
            "latestOffset": {"social.events": {"0": 130, "1": 50, "2": 7}},
        }
    ],
    "observedMetrics": {"events": {"records": 500, "unusable": 2}},
}


def test_a_batchs_progress_has_rate_lag_time_and_watermark() -> None:
    progress = read_progress(REPORTED)
    assert (progress.query, progress.batch, progress.rows) == ("activity", 4, 500)
    assert (progress.rows_per_s, progress.batch_ms) == (264.3, 1891)
    assert progress.lag == 30 + 0 + 7
    assert progress.watermark == datetime(2026, 1, 1, 12, 20, 21, 171000, tzinfo=UTC)
    assert progress.late == 3
    assert progress.observed == {"records": 500, "unusable": 2}


def test_there_is_no_watermark_before_the_first_event() -> None:
    unset = {"watermark": "1970-01-01T00:00:00.000Z"}
    assert read_progress(REPORTED | {"eventTime": unset}).watermark is None
    assert read_progress(REPORTED | {"eventTime": {}}).watermark is None


@pytest.mark.parametrize(
    "source",
    [
        {"endOffset": {"logOffset": 5}, "latestOffset": None},
        {"endOffset": None, "latestOffset": {"t": {"0": 1}}},
        {},
    ],
)
def test_a_source_that_does_not_tell_how_far_it_could_go_has_no_lag(source: Any) -> None:
    assert read_progress(REPORTED | {"sources": [source]}).lag is None


def test_a_query_without_a_name_is_identified_by_its_id() -> None:
    assert read_progress(REPORTED | {"name": None}).query == "d7f3ea43"
