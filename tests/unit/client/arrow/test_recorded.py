"""Logs that Apache Kafka wrote: columns equal the records that its own consumer reads."""

from pathlib import Path

import pytest

from ottla.client.arrow.columns import ColumnLimits, fetched_columns
from ottla.client.reading.fetch import Aborted, Fetched
from ottla.client.reading.visible_records import whole_batches
from ottla.storage.log.log import Log
from tests.support.disk_vectors import CLEAN_CASES, consume, open_unpacked, unpack
from tests.unit.native.test_columns import ALL, rows_of


def fetched_of(log: Log, *, committed: bool) -> Fetched:
    """All that a log has, as if it were fetched at once."""
    whole = b"".join(
        bytes(segment.walk().batch(placed)) for segment in log.segments for placed in segment.walk()
    )
    aborted = log.aborted_transactions(log.start_offset, log.end_offset) if committed else ()
    return Fetched(
        memoryview(whole),
        tuple(Aborted(entry.producer_id, entry.first_offset) for entry in aborted),
    )


@pytest.mark.parametrize("committed", [False, True], ids=["uncommitted", "committed"])
@pytest.mark.parametrize("case", CLEAN_CASES)
def test_columns_are_what_kafka_wrote(case: str, committed: bool, tmp_path: Path) -> None:
    rows_read = 0
    for log in open_unpacked(unpack(case, tmp_path)).logs.values():
        end = log.end_offset
        if committed:
            end = log.producers.last_stable_offset(end)
        fetched = fetched_of(log, committed=committed)
        if not fetched.records:
            continue
        expected = list(consume(log, committed=committed))
        batches = list(whole_batches(fetched.records))
        found = list(
            fetched_columns(
                fetched,
                batches,
                log.start_offset,
                end,
                ALL,
                ColumnLimits(rows_max=97),
                pytest.fail,
            )
        )
        assert [row for columns in found for row in rows_of(columns)] == [
            tuple(record) for _, record in expected
        ]
        kinds = [kind for columns in found for kind in columns.timestamp_type]
        assert kinds == [int(header.is_log_append_time) for header, _ in expected]
        rows_read += len(expected)
    assert rows_read > 0
