"""`ottla group …` against Apache Kafka and against ours: the same words for the same groups."""

import itertools
import json
import re
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from typer.testing import CliRunner

from ottla.cli.app import app
from ottla.testing import Broker
from tests.support.child_processes import child
from tests.support.compat.java_tools import run_tool

WAIT_S = 120.0
# Who leaves is gone long before its session would end.
LEFT_S = 30.0
RECORDS = 10
AGE_S = 1_000
Ottla = Callable[..., list[dict[str, Any]]]
# By topic: the time that its records have.
WRITTEN_S: dict[str, float] = {}
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def servers(request: pytest.FixtureRequest, broker: Broker) -> str:
    if request.param == "ottla":
        return broker.bootstrap_servers
    address: str = request.getfixturevalue("apache_kafka")
    return address


@pytest.fixture
def ottla(servers: str) -> Ottla:
    """Runs `ottla …`, which must end with this exit code: what it prints, row by row."""

    def run(*arguments: str, exit_code: int = 0, text: str = "") -> list[dict[str, Any]]:
        patient = ("--timeout", str(WAIT_S))
        ran = CliRunner().invoke(app, [*arguments, "-b", servers, *patient], input=text)
        assert ran.exit_code == exit_code, ran.stderr
        return [json.loads(line) for line in ran.stdout.splitlines()]

    return run


@pytest.fixture
def topic(servers: str, ottla: Ottla) -> str:
    """Three partitions, the last one empty; the others hold records that are a while old."""
    name = f"orders-{next(_numbers)}"
    ottla("topic", "create", name, "--partitions", "3")
    producer = Producer({"bootstrap.servers": servers})
    WRITTEN_S[name] = int(time.time() - AGE_S)
    for index in range(2 * RECORDS):
        then_ms = WRITTEN_S[name] * 1000
        producer.produce(name, b"%d" % index, partition=index % 2, timestamp=then_ms)
    assert producer.flush(WAIT_S) == 0
    return name


def member(servers: str, group: str, topic: str, **settings: str) -> Consumer:
    """A consumer that was given all partitions and has committed four records of the first."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "client.id": "the-member",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    consumer.subscribe([topic])
    deadline, seen = time.monotonic() + WAIT_S, 0
    while seen < 4:
        assert time.monotonic() < deadline, "nothing was consumed"
        message = consumer.poll(1)
        if message is not None and message.error() is None and message.partition() == 0:
            seen += 1
            consumer.commit(message=message, asynchronous=False)
    return consumer


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_owners_and_lag_equal_kafkas_own_tool_and_a_group_in_use_is_not_deleted(
    servers: str, ottla: Ottla, topic: str, protocol: str
) -> None:
    group = f"group-{topic}"
    with closing(member(servers, group, topic, group_protocol=protocol)):
        (listed,) = [row for row in ottla("group", "list", "-o", "jsonl") if row["name"] == group]
        assert (listed["type"], listed["state"]) == (protocol, "Stable")
        rows = ottla("group", "describe", group, "-o", "jsonl")
        age_s = time.time() - WRITTEN_S[topic]
        kafkas = run_tool(
            "consumer.group.ConsumerGroupCommand",
            *("--bootstrap-server", servers, "--describe", "--group", group),
        )
        ottla("group", "reset", group, "--to", "earliest", "--yes", "-o", "jsonl", exit_code=1)
        ottla("group", "delete", group, "--yes", "-o", "jsonl", exit_code=1)
        ottla("group", "delete", group, "-t", topic, "--yes", "-o", "jsonl", exit_code=1)
        (kept,) = _partitions(ottla, group, topic, committed_only=True)
        assert kept["committed"] == 4
    (summary,) = [row for row in rows if row["kind"] == "group"]
    assert (summary["members"], summary["lag"]) == (1, RECORDS - 4)
    assert AGE_S <= summary["lag_seconds"] <= age_s
    (one,) = [row for row in rows if row["kind"] == "member"]
    assert (one["client"], one["partitions"]) == ("the-member", 3)
    assert _told_by_us(rows) == _told_by_kafka(kafkas.decode(), group)


def _told_by_us(rows: list[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Of each partition: the committed offset, the end offset, the lag, and the owner."""
    cells = ("committed", "end_offset", "lag", "owner")
    return {
        row["partition"]: tuple("-" if row[cell] is None else str(row[cell]) for cell in cells)
        for row in rows
        if row["kind"] == "partition"
    }


def _told_by_kafka(printed: str, group: str) -> dict[str, tuple[str, ...]]:
    words = [line.split() for line in printed.splitlines() if re.match(rf"{group}\s", line)]
    header = next(line.split() for line in printed.splitlines() if line.startswith("GROUP"))
    rows = [dict(zip(header, line, strict=False)) for line in words]
    cells = ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID")
    return {
        f"{row['TOPIC']}-{row['PARTITION']}": tuple(row[cell] for cell in cells) for row in rows
    }


def test_consumers_go_on_where_a_reset_has_put_their_group(
    servers: str, ottla: Ottla, topic: str, protocol: str
) -> None:
    group = f"group-{topic}"
    member(servers, group, topic, group_protocol=protocol).close()
    until_left(ottla, group)
    ottla("group", "reset", group, "--shift", "3", "--yes", "-o", "jsonl")
    ottla(
        *("group", "reset", group, "-t", topic, "--partition", "1"),
        *("--to", "latest", "--yes", "-o", "jsonl"),
    )
    offsets = {
        row["partition"]: row["committed"]
        for row in _partitions(ottla, group, topic, committed_only=True)
    }
    assert offsets == {f"{topic}-0": 7, f"{topic}-1": RECORDS}
    settings = {"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"}
    with closing(Consumer(settings | {"group.protocol": protocol})) as consumer:
        consumer.subscribe([topic])
        deadline = time.monotonic() + WAIT_S
        message = None
        while message is None or message.error() is not None:
            assert time.monotonic() < deadline
            message = consumer.poll(1)
        assert (message.partition(), message.offset()) == (0, 7)


def test_ottla_goes_on_where_its_group_stands(servers: str, topic: str, ottla: Ottla) -> None:
    group = f"group-{topic}"
    consume = ("consume", topic, "--group", group, "-o", "jsonl")
    first = ottla(*consume, "--max", "7")
    assert len(first) == 7
    assert sum(row["committed"] for row in _partitions(ottla, group, topic)) == 7
    rest = ottla(*consume)
    places = [(row["partition"], row["offset"]) for row in first + rest]
    assert sorted(places) == [(partition, offset) for partition in (0, 1) for offset in range(10)]
    assert until_left(ottla, group)["lag"] == 0


def test_ottla_leaves_its_group_when_it_is_interrupted(
    servers: str, topic: str, ottla: Ottla
) -> None:
    group = f"group-{topic}"
    command = [sys.executable, "-m", "ottla.cli", "consume", topic, "-f", "--from", "beginning"]
    with child([*command, "--group", group, "-b", servers]) as member:
        assert member.stdout is not None
        lines = [member.stdout.readline() for _ in range(2 * RECORDS)]
        member.send_signal(signal.SIGINT)
        assert member.wait(WAIT_S) == 130
    assert sorted(lines) == sorted(f"{index}\n" for index in range(2 * RECORDS))
    assert until_left(ottla, group)["members"] == 0


def test_ottla_shares_a_topic_with_another_client(servers: str, topic: str, ottla: Ottla) -> None:
    group = f"group-{topic}"
    strategy = {"partition_assignment_strategy": "range"}
    with (
        closing(member(servers, group, topic, **strategy)) as other,
        ThreadPoolExecutor(1) as background,
    ):
        consume = ("consume", topic, "-f", "--from", "beginning", "--group", group, "-o", "jsonl")
        # All that is there, and one more: it stays until that one is written.
        unread = 2 * RECORDS - 4
        consuming = background.submit(ottla, *consume, "--max", str(unread + 1))
        # The other one notices while it polls, and joins again; later it gets all back.
        hold(other, {2})
        produce_last(servers, topic)
        rows = consuming.result(WAIT_S)
        hold(other, {0, 1, 2})
    # Ranges go by the ids of members, which begin with the names of clients.
    assert {row["partition"] for row in rows} == {0, 1}
    assert min(row["offset"] for row in rows if row["partition"] == 0) == 4


def until_left(ottla: Ottla, group: str) -> dict[str, Any]:
    """What is told of the group once all have left it."""
    deadline = time.monotonic() + LEFT_S
    while True:
        (summary, *_) = ottla("group", "describe", group, "-o", "jsonl")
        if summary["state"] == "Empty":
            return summary
        assert time.monotonic() < deadline, summary
        time.sleep(0.1)


def hold(consumer: Consumer, partitions: set[int]) -> None:
    """Polls until these are the consumer's."""
    deadline = time.monotonic() + WAIT_S
    while (held := {each.partition for each in consumer.assignment()}) != partitions:
        assert time.monotonic() < deadline, held
        consumer.poll(0.1)


def produce_last(servers: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, b"last", partition=0)
    assert producer.flush(WAIT_S) == 0


@pytest.mark.parametrize(
    ("place", "offsets"),
    [
        ("earliest", [0, 0, 0]),
        ("latest", [RECORDS, RECORDS, 0]),
        ("4", [4, 4, 0]),
        ("1h", [0, 0, 0]),
        ("1m", [RECORDS, RECORDS, 0]),
    ],
)
def test_a_group_can_be_made_at_any_place_and_deleted(
    ottla: Ottla, topic: str, place: str, offsets: list[int]
) -> None:
    group = f"made-for-{topic}"
    ottla("group", "reset", group, "-t", topic, "--to", place, "--yes", "-o", "jsonl")
    assert [row["committed"] for row in _partitions(ottla, group, topic)] == offsets
    ottla("group", "delete", group, "--yes", "-o", "jsonl")
    ottla("group", "describe", group, exit_code=4)


def _partitions(
    ottla: Ottla, group: str, topic: str, *, committed_only: bool = False
) -> list[dict[str, Any]]:
    rows = [
        row
        for row in ottla("group", "describe", group, "-o", "jsonl")
        if row["kind"] == "partition"
    ]
    assert all(row["partition"].startswith(topic) for row in rows)
    return [row for row in rows if row["committed"] is not None or not committed_only]
