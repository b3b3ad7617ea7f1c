"""Plans as JSON, in Kafka's format."""

import json
from typing import Any

import pytest

from ottla.cli.reassignment.plan_file import parse_plan, plan_text
from ottla.cli.shared.failure import Failure
from ottla.protocol.topic_partition import TopicPartition

ORDERS = TopicPartition("orders", 0)


def entry(**changes: Any) -> dict[str, Any]:
    return {"topic": "orders", "partition": 0, "replicas": [1, 2]} | changes


def encoded(*entries: object, **changes: Any) -> bytes:
    return json.dumps({"version": 1, "partitions": entries} | changes).encode()


def test_a_plan_that_was_written_is_read() -> None:
    targets = {ORDERS: (3, 1), TopicPartition('a"b', 7): (2,)}
    text = plan_text(targets)
    assert json.loads(text)["partitions"][0] == entry(replicas=[3, 1], log_dirs=["any", "any"])
    assert parse_plan(text.encode(), "file") == targets
    assert json.loads(plan_text({})) == {"version": 1, "partitions": []}


def test_a_plan_of_kafkas_is_read_without_log_directories_and_version() -> None:
    assert parse_plan(b'{"partitions":[{"topic":"a","partition":1,"replicas":[5]}]}', "file") == {
        TopicPartition("a", 1): (5,)
    }


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (encoded(entry())[:-9], "it is not JSON"),
        (b"[]", "no list of partitions"),
        (b'{"version": 1}', "no list of partitions"),
        (encoded(), "it has no partitions"),
        (encoded(entry(), version=2), "its version is 2"),
        (encoded(7), "7 is no partition"),
        (encoded(entry(topic=None)), "names no partition"),
        (encoded(entry(partition="0")), "names no partition"),
        (encoded(entry(partition=True)), "names no partition"),
        (encoded(entry(partition=-1)), "names no partition"),
        (encoded(entry(replicas=[])), "no list of broker ids"),
        (encoded(entry(replicas=None)), "no list of broker ids"),
        (encoded(entry(replicas=[1, "2"])), "no list of broker ids"),
        (encoded(entry(replicas=[1, -2])), "no list of broker ids"),
        (encoded(entry(replicas=[1, 1])), "partition orders-0 has a broker twice"),
        (encoded(entry(), entry()), "it has partition orders-0 twice"),
        (encoded(entry(log_dirs=["/data", "any"])), "not their directories"),
        (encoded(entry(log_dirs=["any"])), "not their directories"),
    ],
)
def test_a_plan_that_is_damaged_says_why(content: bytes, why: str) -> None:
    with pytest.raises(Failure) as failed:
        parse_plan(content, "plan.json")
    assert "plan.json" in failed.value.what
    assert why in str(failed.value.why)
    assert failed.value.advice
