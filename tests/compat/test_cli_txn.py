"""`ottla txn …` against Apache Kafka and against ours: it finds what Kafka's own tool does."""

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaException, Producer
from typer.testing import CliRunner

from ottla.cli.app import app
from ottla.client.blocking.client import BlockingClient
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.offset_spec import OffsetSpec
from ottla.protocol.producer_epoch import ProducerIdAndEpoch
from ottla.protocol.topic_partition import TopicPartition
from ottla.testing import Broker
from tests.support.cli.run_command import Ran, at
from tests.support.compat.hanging_transactions import hang_transaction, init_producer
from tests.support.compat.java_tools import run_tool
from tests.support.compat.kafka_peer import kafka_peer

WAIT_S = 120.0
# Above the default threshold of find-hanging.
AGE_S = 2_000
UNKNOWN_PRODUCER = ProducerIdAndEpoch(900_000, 3)
# Without it no transaction hangs: leaders ask the coordinator first.
NO_VERIFICATION = {"transaction.partition.verification.enable": "false"}
Ottla = Callable[..., Ran]
_numbers = itertools.count(1)


@pytest.fixture(scope="module", params=["kafka", "ottla"])
def servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    if request.param == "ottla":
        with Broker(NO_VERIFICATION | {"log.retention.ms": "-1"}) as broker:
            yield broker.bootstrap_servers
        return
    with kafka_peer(tmp_path_factory.mktemp("kafka"), NO_VERIFICATION) as address:
        yield address


@pytest.fixture
def ottla(servers: str) -> Ottla:
    def run(*arguments: str) -> Ran:
        ran = CliRunner().invoke(app, [*arguments, *at(servers)])
        return Ran(ran.exit_code, ran.stdout, ran.stderr)

    return run


@pytest.fixture
def topic(ottla: Ottla) -> str:
    name = f"payments-{next(_numbers)}"
    assert ottla("topic", "create", name, "--partitions", "2").exit_code == 0
    return name


@pytest.fixture
def producer(servers: str, topic: str) -> Producer:
    """A producer with an open transaction of one record in each partition of the topic."""
    made = Producer({"bootstrap.servers": servers, "transactional.id": f"till-{topic}"})
    made.init_transactions(WAIT_S)
    made.begin_transaction()
    for partition in range(2):
        made.produce(topic, b"paid", partition=partition)
    assert made.flush(WAIT_S) == 0
    return made


def kafkas_rows(servers: str, *arguments: str) -> list[dict[str, str]]:
    """The table that Kafka's own tool prints."""
    printed = run_tool("TransactionsCommand", "--bootstrap-server", servers, *arguments)
    names, *rows = [line.split("\t") for line in printed.decode().splitlines()]
    return [
        {name.strip(): cell.strip() for name, cell in zip(names, row, strict=True)} for row in rows
    ]


def last_stable_offset(servers: str, topic: str, number: int = 0) -> int:
    partition = TopicPartition(topic, number)
    with BlockingClient(servers) as client:
        found = client.offsets({partition: OffsetSpec.LATEST}, Isolation.READ_COMMITTED)
    return found[partition]


def described(ottla: Ottla, topic: str) -> dict[str, Any]:
    (row,) = ottla("txn", "describe", f"till-{topic}", "-o", "jsonl").rows_of("transaction")
    return row


def test_an_open_transaction_is_listed_and_described_as_kafkas_tool_does(
    servers: str, ottla: Ottla, topic: str, producer: Producer
) -> None:
    name = f"till-{topic}"
    ran = ottla("txn", "describe", name, "-o", "jsonl")
    (row,) = ran.rows_of("transaction")
    (kafkas,) = kafkas_rows(servers, "describe", "--transactional-id", name)
    assert (row["name"], row["state"]) == (kafkas["TransactionalId"], kafkas["TransactionState"])
    assert str(row["producer_id"]) == kafkas["ProducerId"]
    assert str(row["producer_epoch"]) == kafkas["ProducerEpoch"]
    assert str(row["timeout_ms"]) == kafkas["TransactionTimeoutMs"]
    assert 0 <= row["open_seconds"] <= int(kafkas["TransactionDurationMs"]) / 1000
    partitions = [each["partition"] for each in ran.rows_of("partition")]
    assert partitions == [f"{topic}:0", f"{topic}:1"]

    listed = ottla("txn", "list", "-o", "jsonl").rows
    kafkas_list = kafkas_rows(servers, "list")
    assert [each["name"] for each in listed] == sorted(
        each["TransactionalId"] for each in kafkas_list
    )
    (own,) = [each for each in listed if each["name"] == name]
    (kafkas,) = [each for each in kafkas_list if each["TransactionalId"] == name]
    assert (own["state"], kafkas["TransactionState"]) == ("Ongoing", "Ongoing")
    assert str(own["producer_id"]) == kafkas["ProducerId"]
    assert str(own["coordinator"]) == kafkas["Coordinator"]
    producer.abort_transaction(WAIT_S)


def test_a_listing_can_be_limited(
    servers: str, ottla: Ottla, topic: str, producer: Producer
) -> None:
    init_producer(servers, f"idle-{topic}")
    producer_id = str(described(ottla, topic)["producer_id"])

    def names(*options: str) -> list[str]:
        ran = ottla("txn", "list", *options, "-o", "name")
        assert ran.exit_code == 0, ran.stderr
        return ran.stdout.splitlines()

    assert f"till-{topic}" in names("--state", "ongoing")
    assert f"till-{topic}" in names("--state", "Empty", "--state", "Ongoing")
    assert f"till-{topic}" not in names("--state", "CompleteCommit")
    assert names("--producer-id", producer_id) == [f"till-{topic}"]
    assert names("--pattern", f"t.*{topic}") == [f"till-{topic}"]
    assert names("--pattern", "nothing.*") == []
    assert f"till-{topic}" in names("--older-than", "0s")
    assert f"idle-{topic}" in names()
    assert names("--older-than", "1d") == []
    refused = ottla("txn", "list", "--pattern", "(")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == "error: --pattern '(' is not a regular expression of RE2\n"
    producer.abort_transaction(WAIT_S)


def test_an_open_transaction_is_aborted_by_its_id_and_its_producer_is_fenced(
    servers: str, ottla: Ottla, topic: str, producer: Producer
) -> None:
    name = f"till-{topic}"
    before = described(ottla, topic)
    plan = ottla("txn", "abort", "--id", name, "-o", "jsonl")
    assert [(row["name"], row["state"], row["partitions"]) for row in plan.rows] == [
        (name, "Ongoing", 2)
    ]
    assert plan.stderr.startswith("nothing was changed: `--yes` aborts the transaction and fences")
    assert described(ottla, topic)["state"] == "Ongoing"
    assert last_stable_offset(servers, topic) == 0

    done = ottla("txn", "abort", "--id", name, "--yes")
    assert done.exit_code == 0, done.stderr
    assert done.stderr.startswith(f"aborted the transaction of {name}; its producer is fenced")
    after = described(ottla, topic)
    assert (after["state"], after["open_seconds"], after["partitions"]) == ("Empty", None, 0)
    assert after["producer_epoch"] > before["producer_epoch"]
    assert after["timeout_ms"] == before["timeout_ms"]
    # The record and the marker.
    assert last_stable_offset(servers, topic) == 2
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(WAIT_S)
    assert fenced.value.args[0].fatal()
    again = ottla("txn", "abort", "--id", name, "--yes")
    assert (again.exit_code, again.stderr) == (
        0,
        f"there is nothing to abort: {name} is in state Empty\n",
    )


def test_a_transaction_that_its_coordinator_knows_is_not_hanging(
    ottla: Ottla, topic: str, producer: Producer
) -> None:
    hanging = ottla("txn", "find-hanging", "--topic", topic, "--older-than", "0s")
    assert (hanging.exit_code, hanging.stdout, hanging.stderr) == (0, "", "")
    ran = ottla("txn", "abort", f"{topic}:0", "--start-offset", "0", "--yes")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert ran.stderr.splitlines()[-1] == f"  try: `ottla txn abort --id till-{topic}`"
    assert described(ottla, topic)["state"] == "Ongoing"
    producer.commit_transaction(WAIT_S)


@pytest.mark.parametrize("is_known", [True, False], ids=["with an id", "without an id"])
@pytest.mark.parametrize("by", ["start-offset", "producer-id"])
def test_a_hanging_transaction_is_found_as_by_kafkas_tool_and_aborted(
    servers: str, ottla: Ottla, topic: str, is_known: bool, by: str
) -> None:
    producer = init_producer(servers, f"till-{topic}") if is_known else UNKNOWN_PRODUCER
    start = hang_transaction(servers, TopicPartition(topic, 0), producer, age_s=AGE_S)
    assert last_stable_offset(servers, topic) == start

    (row,) = ottla("txn", "find-hanging", "--topic", topic, "-o", "jsonl").rows
    (kafkas,) = kafkas_rows(servers, "find-hanging", "--topic", topic)
    assert row["name"] == f"{kafkas['Topic']}:{kafkas['Partition']}"
    assert row["start_offset"] == start == int(kafkas["StartOffset"])
    assert (row["producer_id"], row["producer_epoch"]) == producer
    assert str(row["producer_id"]) == kafkas["ProducerId"]
    assert row["coordinator_epoch"] is None
    assert row["idle_seconds"] // 60 - int(kafkas["Duration(min)"]) in (-1, 0)
    everywhere = ottla("txn", "find-hanging", "-o", "name")
    assert everywhere.exit_code == 0, everywhere.stderr
    assert f"{topic}:0" in everywhere.stdout.splitlines()
    assert ottla("txn", "find-hanging", "-t", topic, "--older-than", "1h").stdout == ""

    named = ("--start-offset", str(start))
    if by == "producer-id":
        named = ("--producer-id", str(producer.producer_id))
    plan = ottla("txn", "abort", f"{topic}:0", *named, "-o", "jsonl")
    assert (plan.exit_code, plan.rows[0]["start_offset"]) == (0, start)
    assert plan.stderr.startswith("nothing was changed: `--yes` writes an abort marker")
    assert last_stable_offset(servers, topic) == start
    done = ottla("txn", "abort", f"{topic}:0", *named, "--yes")
    assert done.exit_code == 0, done.stderr
    assert done.stderr.startswith("aborted the transaction")
    assert last_stable_offset(servers, topic) == start + 3
    assert ottla("txn", "find-hanging", "--topic", topic).stdout == ""
    assert kafkas_rows(servers, "find-hanging", "--topic", topic) == []
    again = ottla("txn", "abort", f"{topic}:0", *named, "--yes")
    assert (again.exit_code, again.stdout) == (4, "")


def test_producers_are_shown_as_by_kafkas_tool(
    servers: str, ottla: Ottla, topic: str, producer: Producer
) -> None:
    """Before, in and after a transaction."""

    def compare() -> dict[str, Any]:
        (row,) = ottla("txn", "producers", f"{topic}:1", "-o", "jsonl").rows
        (kafkas,) = kafkas_rows(servers, *("describe-producers", "--topic", topic), "--partition=1")
        shown = {name: "-1" if cell is None else str(cell) for name, cell in row.items()}
        assert shown["producer_id"] == kafkas["ProducerId"]
        assert shown["producer_epoch"] == kafkas["ProducerEpoch"]
        assert shown["last_sequence"] == kafkas["LastSequence"]
        assert shown["coordinator_epoch"] == kafkas["LatestCoordinatorEpoch"]
        start = kafkas["CurrentTransactionStartOffset"]
        assert shown["open_since_offset"] == ("-1" if start == "None" else start)
        return row

    assert compare()["open_since_offset"] == 0
    producer.commit_transaction(WAIT_S)
    # The answer to a commit may be ahead of its markers.
    deadline = time.monotonic() + WAIT_S
    while last_stable_offset(servers, topic, 1) < 2:
        assert time.monotonic() < deadline
    assert compare()["open_since_offset"] is None
    of_topic = ottla("txn", "producers", topic, "-o", "name")
    assert of_topic.stdout.splitlines() == [f"{topic}:0", f"{topic}:1"]


def test_names_that_do_not_exist_bring_the_nearest_ones(
    ottla: Ottla, topic: str, producer: Producer
) -> None:
    producer.abort_transaction(WAIT_S)
    for command in (("describe",), ("abort", "--yes", "--id")):
        ran = ottla("txn", *command, f"til-{topic}")
        assert (ran.exit_code, ran.stdout) == (4, "")
        assert ran.stderr.splitlines() == [
            f"error: no transactional id 'til-{topic}'; did you mean 'till-{topic}'?",
            "  try: `ottla txn list` shows the existing ones",
        ]
    for command in (("producers", "payment:0"), ("find-hanging", "--topic", "payment")):
        ran = ottla("txn", *command)
        assert (ran.exit_code, ran.stdout) == (4, "")
        assert ran.stderr.startswith("error: no topic 'payment'; did you mean 'payments-")
    ran = ottla("txn", "producers", f"{topic}:2")
    assert (ran.exit_code, ran.stdout) == (4, "")
    assert ran.stderr.startswith(f"error: topic {topic} has no partition 2")
