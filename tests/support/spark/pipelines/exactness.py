"""Compares the output of a run with the model's for the same records and batches."""

import json
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession

from ottla.spark.pipelines.catalogue import GeneratedRecord
from ottla.spark.pipelines.trending.transform import RULES
from tests.support.spark.pipelines import trending_model as model
from tests.support.spark.pipelines.frames import activity_rows, trend_rows
from tests.support.spark.topics import WAIT_S, delivering

# By partition, in the order of offsets.
Contents = dict[int, list[GeneratedRecord]]


def send(servers: str, topic: str, records: list[GeneratedRecord]) -> None:
    """By their keys, as any producer does."""
    with delivering(servers, partitioner="murmur2_random") as producer:
        for record in records:
            producer.produce(topic, record.value, key=record.key, timestamp=record.timestamp_ms)
            producer.poll(0)


def contents(servers: str, topic: str, partitions: int) -> Contents:
    """The topic's records as another client reads them."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": f"reads-{topic}"})
    found: Contents = {number: [] for number in range(partitions)}
    try:
        ends = [
            consumer.get_watermark_offsets(TopicPartition(topic, number), WAIT_S)[1]
            for number in range(partitions)
        ]
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while sum(map(len, found.values())) < sum(ends):
            message = consumer.poll(WAIT_S)
            assert message is not None
            assert message.error() is None
            made = GeneratedRecord(message.key(), message.value(), message.timestamp()[1])
            found[message.partition()].append(made)
    finally:
        consumer.close()
    return found


def batches_of(checkpoint: Path, topic: str, records: Contents) -> list[list[GeneratedRecord]]:
    """The batches that a query planned, from its checkpoint; some are empty."""
    batches = []
    done = dict.fromkeys(records, 0)
    for number in _numbers(checkpoint / "offsets"):
        _, _, planned = _lines(checkpoint / "offsets" / str(number))
        ends = {int(each): end for each, end in json.loads(planned)[topic].items()}
        batches.append(
            [made for each in records for made in records[each][done[each] : ends[each]]]
        )
        done = ends
    assert all(done[each] == len(records[each]) for each in records)
    return batches


def unseen_of(checkpoint: Path, batches: list[list[GeneratedRecord]]) -> set[int]:
    """The batches with an event newer than all before it that did not move the watermark.

    A query may be stopped when the rows of a batch are written, and the batch itself is not yet
    committed. Spark then plans the batch again, finds its rows, and does not look at its events: so
    it has not seen the newest of them, and what comes in the next batch has more time.
    """
    unseen = set()
    newest_ms = 0
    for number, batch in enumerate(batches):
        # The records left over by the limit of earlier batches may all be old.
        at_ms = max((event.at_ms for event in model.usable(batch)), default=0)
        if at_ms > newest_ms and _stood(checkpoint, number):
            unseen.add(number)
        else:
            newest_ms = max(newest_ms, at_ms)
    return unseen


def _stood(checkpoint: Path, number: int) -> bool:
    """Whether the watermark was after a batch where it had been before."""
    planned = json.loads(_lines(checkpoint / "offsets" / str(number))[1])
    committed = json.loads(_lines(checkpoint / "commits" / str(number))[1])
    return bool(committed["nextBatchWatermarkMs"] == planned["batchWatermarkMs"])


def uncommit(folder: Path, query: str) -> None:
    """As if it had been killed when the rows of its last batch were written, and no later."""
    commits = folder / "checkpoints" / query / "commits"
    last = max(_numbers(commits))
    assert last in _numbers(folder / query / "_spark_metadata")
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def assert_exact(
    spark: SparkSession, folder: Path, topic: str, records: Contents, stops: int = 0
) -> None:
    """Both folders have the rows of the model, each once, and not few of them.

    `stops` is how often a run was stopped, whatever it was about.
    """
    for query, rows_of, expected_of in (
        ("activity", activity_rows, model.activity),
        ("trending", trend_rows, model.trending),
    ):
        checkpoint = folder / "checkpoints" / query
        batches = batches_of(checkpoint, topic, records)
        unseen = unseen_of(checkpoint, batches)
        assert len(unseen) <= stops
        expected = expected_of(model.counted(batches, RULES, unseen), RULES)
        assert len(expected) > 50
        assert rows_of(spark.read.parquet(str(folder / query))) == expected


def _numbers(log: Path) -> list[int]:
    """The batches of a log that Spark keeps."""
    return sorted(int(path.name) for path in log.glob("[0-9]*") if path.name.isdecimal())


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()
