"""`ottla pipeline`, as far as it runs without Spark."""

import json
import os
import signal
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.errors import PySparkException

from ottla.cli.pipeline.arguments import folder_path
from ottla.cli.pipeline.run import progress_line, spark_failure, stop_on_signals
from ottla.cli.shared.failure import ExitCode
from ottla.spark.progress import BatchProgress
from tests.support.cli.run_command import ottla
from tests.unit.cli.conftest import AtBroker
from tests.unit.cli.test_imports import among, imported_by


def test_pipelines_are_listed_without_waiting_for_spark() -> None:
    (row,) = ottla("pipeline", "list", "-o", "jsonl").rows
    assert (row["name"], row["topic"]) == ("trending", "social.events")
    assert row["writes"] == "activity,trending"
    assert among(imported_by("pipeline", "list"), ("pyspark", "pyarrow", "asyncio")) == []


@pytest.mark.parametrize("command", ["run", "generate"])
def test_a_pipeline_that_is_not_there_is_not_found(command: str) -> None:
    ran = ottla("pipeline", command, "nothing")
    assert ran.exit_code == ExitCode.NOT_FOUND
    assert "no pipeline 'nothing'" in ran.stderr
    assert "ottla pipeline list" in ran.stderr


def test_rows_go_to_one_place_only() -> None:
    ran = ottla("pipeline", "run", "trending", "--console", "--to", "somewhere")
    assert ran.exit_code == ExitCode.USAGE
    assert "--console and --to exclude each other" in ran.stderr


@pytest.mark.parametrize("command", [("run", "trending"), ("pack",)])
def test_without_pyspark_the_error_names_the_package_to_install(
    monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("ottla.cli.shared.spark_required.find_spec", lambda _: None)
    ran = ottla("pipeline", *command)
    assert (ran.exit_code, ran.stdout) == (ExitCode.FAILED, "")
    assert "pip install 'ottla[spark]'" in ran.stderr


def test_an_archive_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    missing = tmp_path / "ship.zip"
    ran = ottla("pipeline", "run", "trending", "--archive", missing, "--to", tmp_path)
    assert ran.exit_code == ExitCode.NOT_FOUND
    assert f"`ottla pipeline pack {missing}` writes it" in ran.stderr


def test_generated_records_are_sent_by_their_keys(at_broker: AtBroker, topic: str) -> None:
    to = ("--topic", topic, "-p", "3")
    ran = at_broker("pipeline", "generate", "trending", "-n", "2500", "--seed", "4", *to)
    assert ran.exit_code == 0
    assert f"sent 2500 records to {topic}" in ran.stderr
    records = at_broker("consume", topic, "-o", "jsonl").rows
    assert len(records) == 2500
    places: dict[str, set[int]] = {}
    for record in records:
        places.setdefault(record["key"], set()).add(record["partition"])
    assert {len(partitions) for partitions in places.values()} == {1}
    assert set().union(*places.values()) == {0, 1, 2}
    whole = [record for record in records if record["value"].endswith("}")]
    assert json.loads(whole[0]["value"]).keys() >= {"event_id", "kind", "post_id", "at_ms"}


def test_records_at_a_rate_come_in_as_they_happen(at_broker: AtBroker, topic: str) -> None:
    to = ("--topic", topic, "-p", "1")
    ran = at_broker("pipeline", "generate", "trending", "-n", "60", "--rate", "200", *to)
    assert ran.exit_code == 0
    times = [record["timestamp"] for record in at_broker("consume", topic, "-o", "jsonl").rows]
    assert len(times) == 60
    assert times == sorted(times)


def test_a_batch_is_reported_in_one_line() -> None:
    progress = BatchProgress(
        query="activity",
        batch=7,
        rows=12_000,
        rows_per_s=4_100.4,
        batch_ms=2_930,
        lag=3_400,
        watermark=datetime(2026, 1, 1, 12, 4, 5, tzinfo=UTC),
        late=2,
        observed={"records": 12_000, "unusable": 1},
    )
    assert progress_line(progress) == (
        "activity batch 7: 12,000 rows, 4,100 rows/s, 2.93 s, lag 3,400, "
        "watermark 2026-01-01T12:04:05Z, 2 too late, 1 unusable"
    )


def test_our_own_error_is_reported_without_sparks_wrapping() -> None:
    said = (
        "[STREAM_FAILED] Query [id = x] terminated with exception: Error\n"
        "Traceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "ottla.spark.failures.SourceFailed: topic t: UNKNOWN: make the topic\n"
    )
    failure = spark_failure(PySparkException(said))
    assert failure.what == "the pipeline has failed"
    assert failure.why == "topic t: UNKNOWN: make the topic"
    assert spark_failure(PySparkException("first\nsecond")).why == "first"


def test_an_error_of_spark_is_reported_with_its_first_cause() -> None:
    said = (
        "Task not serializable\n\nJVM stacktrace:\norg.apache.spark.SparkException: Task not "
        "serializable\n\tat org.apache.spark.util\nCaused by: java.lang.RuntimeException: later"
        "\n\tat scala.collection\nCaused by: java.io.IOException: the first\n\t... 42 more\n"
    )
    failure = spark_failure(PySparkException(said))
    assert failure.why == "Task not serializable: java.io.IOException: the first"


def test_a_missing_connector_is_reported_with_advice() -> None:
    failure = spark_failure(PySparkException("Failed to find data source: kafka. Please deploy"))
    assert failure.what == "Spark's Kafka connector is missing"
    assert failure.advice is not None
    assert "--source ottla" in failure.advice


def test_the_first_signal_asks_and_the_second_one_ends() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        assert not stop.is_requested
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_requested
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("hdfs://nodes/lake/", "hdfs://nodes/lake"),
        ("/lake", "/lake"),
        ("lake", f"{os.getcwd()}/lake"),
    ],
)
def test_a_folder_has_a_path_that_every_node_can_resolve(text: str, path: str) -> None:
    assert folder_path(text) == path
