"""A pipeline as a user runs it: it stops on a signal, resumes, and reports its errors."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ottla.spark.pipelines.catalogue import PIPELINES, pipeline_main
from ottla.spark.pipelines.streams import OTTLA, ConsoleSink, FolderSink, Streams
from ottla.spark.pipelines.trending.generate import generate
from ottla.spark.progress import BatchProgress, ProgressWatch
from tests.support.spark.pipelines.exactness import (
    assert_exact,
    batches_of,
    contents,
    send,
    uncommit,
    unseen_of,
)
from tests.support.spark.pipelines.process import PipelineRun
from tests.support.spark.streams import QUERY_WAIT_S
from tests.support.spark.topics import Topics

NOON_MS = 1_767_268_800_000
PARTITIONS = 3
RUN_RECORDS = 800
EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"

Start = Callable[..., PipelineRun]


@pytest.fixture
def start(servers: str, topic: str, tmp_path: Path) -> Iterator[Start]:
    """Starts runs of one pipeline, one after the other."""
    started: list[PipelineRun] = []

    def begin(*arguments: str) -> PipelineRun:
        run = PipelineRun(servers, topic, tmp_path, "--master", "local[2]", *arguments)
        started.append(run)
        return run

    yield begin
    for run in started:
        run.close()


def run_to_end(
    spark: SparkSession,
    topics: Topics,
    topic: str,
    target: FolderSink | ConsoleSink,
    source: str = OTTLA,
) -> list[BatchProgress]:
    """Runs in the tests' session, and returns the progress of its batches."""
    streams = Streams(
        pipeline="trending",
        bootstrap_servers=topics.servers,
        topic=topic,
        target=target,
        source=source,
        is_until_end=True,
    )
    queries = pipeline_main(PIPELINES["trending"])(spark, streams)
    assert [query.name for query in queries] == ["activity", "trending"]
    assert all(query.awaitTermination(QUERY_WAIT_S) for query in queries)
    return list(ProgressWatch(queries).new())


def test_a_run_stops_on_a_signal_and_the_next_one_resumes(
    spark: SparkSession, topics: Topics, topic: str, start: Start, tmp_path: Path
) -> None:
    topics.make(topic, PARTITIONS)
    records = generate(5, NOON_MS, 1.2)
    told = 0
    for stop in (PipelineRun.interrupt, PipelineRun.terminate):
        # However far the run before has come, there is something to do for this one.
        send(topics.servers, topic, list(islice(records, RUN_RECORDS)))
        run = start("--option", "maxOffsetsPerTrigger=200")
        run.wait_for_batches(2)
        run.wait_for_rows()
        stop(run)
        assert run.wait() == 0, run.said
        assert "Traceback" not in run.said
        assert " ERROR " not in run.said
        told += run.rows
    send(topics.servers, topic, list(islice(records, RUN_RECORDS)))
    last = start("--until-end")
    assert last.wait() == 0, last.said
    # Each of the two queries reads every record, and repeats no earlier batch.
    assert 2 * RUN_RECORDS <= last.rows <= 2 * 3 * RUN_RECORDS - told
    assert "lag 0" in last.said
    assert_exact(spark, tmp_path, topic, contents(topics.servers, topic, PARTITIONS), stops=2)


def test_a_topic_that_is_not_there_is_named_without_a_trace(start: Start, topic: str) -> None:
    run = start("--until-end")
    assert run.wait() == 4
    assert f"error: no topic '{topic}'" in run.said
    assert "Traceback" not in run.said


def test_a_pipeline_moves_to_sparks_own_connector_and_back(
    spark: SparkSession, connector: str, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.make(topic, PARTITIONS)
    records = generate(6, NOON_MS, 1.2)
    for source in ("ottla", connector, "ottla"):
        send(topics.servers, topic, list(islice(records, 600)))
        told = run_to_end(spark, topics, topic, FolderSink(str(tmp_path)), source)
        assert sum(each.rows for each in told) == 2 * 600
        assert {each.lag for each in told if each.rows} == {0}
    assert_exact(spark, tmp_path, topic, contents(topics.servers, topic, PARTITIONS))


def test_a_batch_of_which_only_the_rows_were_written_counts_once(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.make(topic, PARTITIONS)
    records = generate(9, NOON_MS, 1.2)
    # So that the last batch of each run has records.
    spark.conf.set(EMPTY_BATCHES, "false")
    try:
        for _ in range(3):
            send(topics.servers, topic, list(islice(records, 600)))
            run_to_end(spark, topics, topic, FolderSink(str(tmp_path)))
            uncommit(tmp_path, "activity")
            uncommit(tmp_path, "trending")
    finally:
        spark.conf.unset(EMPTY_BATCHES)
    told = run_to_end(spark, topics, topic, FolderSink(str(tmp_path)))
    assert sum(each.rows for each in told) == 0
    found = contents(topics.servers, topic, PARTITIONS)
    for query in ("activity", "trending"):
        checkpoint = tmp_path / "checkpoints" / query
        assert unseen_of(checkpoint, batches_of(checkpoint, topic, found)) == {0, 1, 2}
    send(topics.servers, topic, list(islice(records, 600)))
    run_to_end(spark, topics, topic, FolderSink(str(tmp_path)))
    assert_exact(spark, tmp_path, topic, contents(topics.servers, topic, PARTITIONS), stops=3)


def test_a_batch_in_which_nothing_is_new_leaves_the_watermark_where_it_was(
    spark: SparkSession, topics: Topics, topic: str, tmp_path: Path
) -> None:
    topics.make(topic, PARTITIONS)
    records = list(islice(generate(10, NOON_MS, 1.2), 900))
    for sent in (records[:600], records[500:600], records[600:]):
        send(topics.servers, topic, sent)
        told = run_to_end(spark, topics, topic, FolderSink(str(tmp_path)))
        assert sum(each.rows for each in told) == 2 * len(sent)
    assert_exact(spark, tmp_path, topic, contents(topics.servers, topic, PARTITIONS))


def test_a_run_to_the_console_keeps_nothing(
    spark: SparkSession,
    topics: Topics,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    topics.make(topic)
    send(topics.servers, topic, list(islice(generate(7, NOON_MS, 1.2), 300)))
    for _ in range(2):
        told = run_to_end(spark, topics, topic, ConsoleSink())
        assert sum(each.rows for each in told) == 2 * 300
    assert list(tmp_path.iterdir()) == []
