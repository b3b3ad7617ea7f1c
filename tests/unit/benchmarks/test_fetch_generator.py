"""The load generator of raw fetches: isolation levels, and answers with aborted transactions."""

import json
import shutil

import pytest
from benchmarks.loads.generators import generator
from benchmarks.loads.tools import output_of

from ottla.protocol.batch import Record, build
from ottla.protocol.messages import fetch, list_offsets
from tests.support.scripted_broker import Asked, scripted_broker

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc builds the generators")

END_OFFSET = 150
BATCH_RECORDS = 50


def answer(asked: Asked) -> object:
    if isinstance(asked.message, list_offsets.ListOffsetsRequest):
        partition = list_offsets.PartitionResult(
            partition_index=0, error_code=0, timestamp=-1, offset=END_OFFSET
        )
        topic = list_offsets.TopicResult(name="topic", partitions=(partition,))
        return list_offsets.ListOffsetsResponse(topics=(topic,))
    (asked_topic,) = asked.message.topics
    offset = asked_topic.partitions[0].fetch_offset
    batch = bytes(build([Record(offset + n, 0, None, b"a") for n in range(BATCH_RECORDS)]))
    is_committed = asked.message.isolation_level == 1
    aborted = tuple(fetch.AbortedTransaction(producer_id=n, first_offset=n) for n in range(3))
    result = fetch.PartitionResult(
        partition_index=0,
        error_code=0,
        high_watermark=END_OFFSET,
        aborted_transactions=aborted if is_committed else None,
        records=batch + batch[:20],
    )
    return fetch.FetchResponse(responses=(fetch.TopicResult(topic="topic", partitions=(result,)),))


def fetched(*arguments: object) -> tuple[dict[str, float], list[Asked]]:
    with scripted_broker(answer) as broker:
        command = [generator("fetch"), str(broker.port), "topic", "0", "65536"]
        said = json.loads(output_of([*command, *map(str, arguments)]))
    return said, broker.asked[1:]


@pytest.mark.parametrize(
    ("isolation", "level"), [((), 0), (("read_uncommitted",), 0), (("read_committed",), 1)]
)
def test_a_scan_goes_from_batch_to_batch_with_its_isolation_level(
    isolation: tuple[str, ...], level: int
) -> None:
    said, asked = fetched("scan", 1, *isolation)
    offsets = [each.message.topics[0].partitions[0].fetch_offset for each in asked]
    assert offsets == [0, 50, 100]
    assert {each.message.isolation_level for each in asked} == {level}
    assert all(each.is_exact for each in asked)
    assert said["fetches"] == 3


def test_the_tail_is_fetched_for_a_time() -> None:
    said, asked = fetched("tail", 0.1, "read_committed")
    offsets = {each.message.topics[0].partitions[0].fetch_offset for each in asked}
    assert offsets == {END_OFFSET - 100}
    assert said["fetches"] == len(asked) > 1
    assert said["seconds"] >= 0.1
    assert 0 < said["p99_us"] <= said["seconds"] * 1e6
