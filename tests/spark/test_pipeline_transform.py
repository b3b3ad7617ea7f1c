"""The transformations compared with the plain model, as one table and batch by batch."""

import json
import os
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from ottla.spark.pipelines.catalogue import GeneratedRecord
from ottla.spark.pipelines.trending import transform
from ottla.spark.pipelines.trending.generate import generate
from ottla.spark.pipelines.trending.transform import RULES, Rules
from ottla.spark.progress import ProgressWatch
from tests.support.spark.pipelines import trending_model as model
from tests.support.spark.pipelines.frames import SCHEMA, activity_rows, frame_of, trend_rows
from tests.support.spark.streams import QUERY_WAIT_S

NOON_MS = 1_767_268_800_000
DAY_MS = 86_400_000


def made(at_ms: int = NOON_MS, came_ms: int = NOON_MS, **besides: object) -> GeneratedRecord:
    event = {"event_id": "e", "kind": "like", "post_id": "p", "user_id": "u", "at_ms": at_ms}
    return GeneratedRecord(b"p", json.dumps(event | besides).encode(), came_ms)


EVENTS = st.lists(
    st.builds(
        lambda number, kind, post, second: made(
            NOON_MS + 1000 * second, event_id=f"e-{number}", kind=kind, post_id=f"post-{post}"
        ),
        st.integers(0, 1_000_000),
        st.sampled_from(["like", "comment", "post"]),
        st.integers(0, 4),
        st.integers(-400, 59),
    ),
    max_size=30,
    unique_by=lambda record: json.loads(record.value)["event_id"],
)


@settings(max_examples=6, derandomize=True, deadline=None)
@given(records=EVENTS)
def test_a_table_of_events_is_counted_as_the_model_counts(
    spark: SparkSession, records: list[GeneratedRecord]
) -> None:
    rules = Rules(
        activity_window_s=30, trending_window_s=120, trending_slide_s=40, trending_posts_max=2
    )
    happened = transform.events(frame_of(spark, records))
    everything = model.Counted(list(model.usable(records)), NOON_MS + DAY_MS)
    assert activity_rows(transform.activity_of(happened, rules)) == model.activity(
        everything, rules
    )
    assert trend_rows(transform.trending_of(happened, rules)) == model.trending(everything, rules)


UNUSABLE = {
    "no JSON": GeneratedRecord(b"p", b'{"event_id": "e', NOON_MS),
    "no text": GeneratedRecord(b"p", b"\xff\xfe\x00", NOON_MS),
    "no object": GeneratedRecord(b"p", b"[1, 2]", NOON_MS),
    "nothing": GeneratedRecord(b"p", b"", NOON_MS),
    "no id": made(event_id=None),
    "an empty id": made(event_id=""),
    "an endless id": made(event_id="e" * 129),
    "no post": made(post_id=None),
    "no kind": made(kind=None),
    "no number": GeneratedRecord(
        b"p", b'{"event_id":"e","kind":"like","post_id":"p","at_ms":"x"}', NOON_MS
    ),
    "before all time": made(at_ms=-1),
    "of tomorrow": made(at_ms=NOON_MS + DAY_MS),
    "beyond all time": made(at_ms=2**63 - 1),
}


def test_invalid_events_are_dropped_and_nothing_fails(spark: SparkSession) -> None:
    good = [made(event_id="e-1", at_ms=NOON_MS + 60_000), made(event_id="e-2", kind="comment")]
    frame = transform.events(frame_of(spark, [*UNUSABLE.values(), *good]))
    assert sorted(row.event_id for row in frame.collect()) == ["e-1", "e-2"]


@pytest.fixture(scope="module")
def batches() -> list[list[GeneratedRecord]]:
    """Half an hour of a small medium; in the end something comes at the edge of being too late."""
    records = generate(3, NOON_MS, 1.2)
    batches = [list(islice(records, 500)) for _ in range(4)]
    before = model.counted(batches[:3], RULES)
    edge_ms = before.watermark_ms
    batches[3] += [
        made(at_ms=edge_ms - 1_000_000, came_ms=NOON_MS + DAY_MS, event_id="hopeless"),
        made(at_ms=edge_ms, came_ms=NOON_MS + DAY_MS, event_id="too late"),
        made(at_ms=edge_ms + 1, came_ms=NOON_MS + DAY_MS, event_id="in time"),
    ]
    return batches


@pytest.fixture(scope="module")
def folder(
    spark: SparkSession,
    batches: list[list[GeneratedRecord]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A file for each batch, in the order of their times."""
    folder = tmp_path_factory.mktemp("batches")
    for number, batch in enumerate(batches):
        part = folder / f"batch-{number}"
        frame_of(spark, batch).coalesce(1).write.parquet(str(part))
        (file,) = part.glob("*.parquet")
        os.utime(file, (NOON_MS // 1000 + number, NOON_MS // 1000 + number))
    return folder


def streamed(spark: SparkSession, folder: Path, name: str) -> int:
    """Runs a query batch by batch to the table `name`; how many batches there were."""
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    rows = getattr(transform, name)(source.parquet(f"{folder}/batch-*"))
    query = rows.writeStream.queryName(name).format("memory").trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_WAIT_S)
    # Not every report is of a batch: some say that nothing was found.
    return max(batch.batch for batch in ProgressWatch([query]).new()) + 1


def counted_in(batches: list[list[GeneratedRecord]], count: int) -> model.Counted:
    """After the last records Spark runs one more batch, to write the completed windows."""
    assert count == len(batches) + 1
    return model.counted([*batches, []], RULES)


def test_late_and_repeated_events_count_as_the_model_counts_them(
    spark: SparkSession, batches: list[list[GeneratedRecord]], folder: Path
) -> None:
    happened = counted_in(batches, streamed(spark, folder, "activity"))
    sent = [event for batch in batches for event in model.usable(batch)]
    assert len(sent) > len({event.event_id for event in sent})
    counted = {event.event_id for event in happened.events}
    assert {event.event_id for event in sent} - counted >= {"hopeless", "too late"}
    assert "in time" in counted
    expected = model.activity(happened, RULES)
    assert len(expected) > 100
    assert activity_rows(spark.table("activity")) == expected


def test_posts_are_ranked_in_every_window_as_the_model_ranks_them(
    spark: SparkSession, batches: list[list[GeneratedRecord]], folder: Path
) -> None:
    happened = counted_in(batches, streamed(spark, folder, "trending"))
    expected = model.trending(happened, RULES)
    assert len(expected) > 100
    assert trend_rows(spark.table("trending")) == expected
