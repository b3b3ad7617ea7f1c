"""The topics of the Spark and Arrow rows, and the message if Spark cannot run."""

import importlib.util
import json

import pytest
from benchmarks.cache import ToolMissing
from benchmarks.loads.json_topic import DISTINCT_RECORDS, VALUE_BYTES, records
from benchmarks.loads.spark import process
from benchmarks.loads.spark.latency import percentile
from benchmarks.loads.spark.scanning import EVENT
from benchmarks.rows import ROWS


def test_records_are_json_of_one_size_with_the_fields_that_are_parsed() -> None:
    made = records()
    assert len({value for _, value in made}) == DISTINCT_RECORDS
    assert {len(value) for _, value in made} == {VALUE_BYTES}
    names = [field.split()[0] for field in EVENT.split(", ")]
    assert all(list(json.loads(value)) == names for _, value in made[:100])


def test_every_row_compared_with_another_reader_names_its_base() -> None:
    rows = [row for row in ROWS if row.group in ("spark", "spark's workers", "arrow")]
    assert rows
    assert all(row.base is not None and row.base_name != "Kafka" for row in rows)


def test_without_pyspark_the_rows_are_skipped_and_name_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "need", lambda *_: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ToolMissing, match=r"ottla\[spark\]"):
        process.connector_jars()


def test_a_percentile_is_one_of_the_delays() -> None:
    delays_ns = [each * 1_000_000 for each in range(1, 101)]
    assert (percentile(delays_ns, 50), percentile(delays_ns, 99)) == (51.0, 100.0)
    assert percentile([7_000_000], 99) == 7.0
