"""A query goes on from the checkpoint that it left with an earlier version, over its old data."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.support.broker_process import BrokerProcess
from tests.support.cluster_contents import Json, contents, text_of
from tests.support.spark.streams import QUERY_WAIT_S
from tests.support.spark.topics import Topics, numbered
from tests.support.upgrade_cases import UpgradeCase, recorded
from tests.support.upgrade_settings import OPENING

TOPIC, GROUP = "events", "stream"
# As when the case was recorded: each batch ends after so many records.
BATCH_ROWS = 20

# Partition, offset and value of each record of a batch.
Rows = list[list[Json]]


@pytest.fixture(params=recorded("spark-checkpoint"), ids=str)
def case(request: pytest.FixtureRequest) -> UpgradeCase:
    found: UpgradeCase = request.param
    return found


@pytest.fixture
def place(case: UpgradeCase, tmp_path: Path) -> Path:
    """The broker's data, and the query's checkpoint."""
    return case.unpack(tmp_path)


@pytest.fixture
def broker(place: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(place / "data", OPENING) as running:
        yield running


def run(spark: SparkSession, servers: str, checkpoint: Path) -> dict[int, Rows]:
    """Reads all that is there; what the sink got, batch by batch."""
    sink: dict[int, Rows] = {}

    def put(rows: DataFrame, batch_id: int) -> None:
        found = [[row.partition, row.offset, text_of(bytes(row.value))] for row in rows.collect()]
        sink[batch_id] = sorted(found)

    options = {
        "kafka.bootstrap.servers": servers,
        "subscribe": TOPIC,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": str(BATCH_ROWS),
        "groupId": GROUP,
    }
    rows = spark.readStream.format("ottla").options(**options).load()
    writer = rows.writeStream.foreachBatch(put).option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(QUERY_WAIT_S)
    return sink


def records(found: Json) -> Rows:
    """All that the topic has."""
    return [
        [number, record["offset"], record["value"]]
        for number, partition in enumerate(found["topics"][TOPIC]["partitions"])
        for record in partition["records"]
    ]


def between(rows: Rows, start: Json, end: Json) -> Rows:
    """The records of a batch with these two offsets."""
    first, after = start[TOPIC], end[TOPIC]
    return [row for row in rows if first[str(row[0])] <= row[1] < after[str(row[0])]]


def committed(found: Json) -> dict[str, int]:
    offsets = found["groups"][GROUP]["offsets"]
    return {name: each["offset"] for name, each in offsets.items()}


def test_a_query_goes_on_where_it_was_with_an_earlier_version(
    spark: SparkSession, case: UpgradeCase, place: Path, broker: BrokerProcess
) -> None:
    expected = case.expected
    offsets = [expected["offsets"][str(each)] for each in range(len(expected["offsets"]))]
    done = [row for batch in expected["sink"].values() for row in batch]
    # The last batch was begun, and its sink failed.
    planned = len(offsets) - 1
    assert planned == len(expected["sink"])

    before = contents(broker.bootstrap_servers)
    sink = run(spark, broker.bootstrap_servers, place / "checkpoint")

    assert [before[part] for part in ("topics", "groups")] == [
        expected[part] for part in ("topics", "groups")
    ]
    assert min(sink) == planned
    assert sink[planned] == between(records(before), offsets[-2], offsets[-1])
    # None lost, none twice.
    assert sorted(done + [row for batch in sink.values() for row in batch]) == records(before)
    assert {len(batch) for batch in sink.values()} == {BATCH_ROWS}

    Topics(broker.bootstrap_servers).send(TOPIC, numbered(100, 107), partition=1)
    later = run(spark, broker.bootstrap_servers, place / "checkpoint")

    after = contents(broker.bootstrap_servers)
    new = [row for row in records(after) if row not in records(before)]
    assert [*later.items()] == [(max(sink) + 1, new)]
    assert [value for _, _, value in new] == [str(each) for each in range(100, 107)]
    ends = [partition["end"] for partition in after["topics"][TOPIC]["partitions"]]
    assert committed(after) == {f"{TOPIC}-{number}": end for number, end in enumerate(ends)}
