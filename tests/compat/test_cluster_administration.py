"""Administration of a cluster with real clients and Kafka's own tools beside it."""

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.testing import Cluster
from tests.support.cli.cluster_commands import ClusterCommands
from tests.support.cli.run_command import at, ottla
from tests.support.compat.java_tools import run_tool

WAIT_S = 120.0
PARTITIONS = 6


@pytest.fixture
def run() -> Iterator[ClusterCommands]:
    # Small fetches, so that replicas are added while records come in.
    small = {"replica.fetch.max.bytes": "20000", "replica.fetch.response.max.bytes": "20000"}
    with Cluster(3, small) as cluster:
        yield ClusterCommands(cluster)


class SteadyProducer:
    """Produces numbers with acks=all until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        self.acknowledged: list[bytes] = []
        self.errors: list[KafkaError] = []
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": servers, "acks": "all", "enable.idempotence": "true"}
        )
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer")
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            value = b"%d " % number + b"x" * 200
            self._producer.produce(
                self._topic, value, partition=number % PARTITIONS, on_delivery=self._delivered
            )
            self._producer.poll(0.001)
            number += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            value = message.value()
            assert value is not None
            self.acknowledged.append(value)
        else:
            self.errors.append(error)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        assert self._producer.flush(WAIT_S) == 0


def read_all(servers: str, topic: str) -> Counter[bytes]:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "none", "enable.partition.eof": "true"}
    )
    found: Counter[bytes] = Counter()
    ended = 0
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        while ended < PARTITIONS:
            message = consumer.poll(WAIT_S)
            assert message is not None
            error = message.error()
            if error is None:
                value = message.value()
                assert value is not None
                found[value] += 1
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended += 1
    finally:
        consumer.close()
    return found


def test_a_producer_loses_nothing_while_replicas_come_move_and_go(run: ClusterCommands) -> None:
    servers = run.cluster.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    (made,) = admin.create_topics([NewTopic("orders", PARTITIONS, 1)]).values()
    made.result(WAIT_S)
    producer = SteadyProducer(servers, "orders")
    try:
        run.until(lambda: len(producer.acknowledged) > 2000)
        quiet = ("--yes", "-o", "name")
        run.done("topic", "replicate", "orders", "--factor", "3", *quiet)
        run.cluster.add(4)
        run.done("broker", "drain", "2", "--throttle", "2000000", *quiet)
        run.done("topic", "replicate", "orders", "--factor", "2", *quiet)
        run.done("topic", "reassign", "--all", *quiet)
        begun_with = len(producer.acknowledged)
        run.until(lambda: len(producer.acknowledged) > begun_with + 500)
    finally:
        producer.stop()
    assert producer.errors == []
    found = read_all(run.cluster.bootstrap_servers, "orders")
    assert set(producer.acknowledged) <= found.keys()
    assert max(found.values()) == 1
    assert {len(each) for each in run.replicas("orders")} == {2}


def test_kafkas_tool_and_ours_carry_out_each_others_plans(
    run: ClusterCommands, tmp_path: Path
) -> None:
    run.create("orders", [[1, 2], [1, 2]])
    servers = ("--bootstrap-server", run.cluster.bootstrap_servers)
    tool = "reassign.ReassignPartitionsCommand"
    ours = tmp_path / "ours.json"
    ours.write_text(
        run.done("topic", "reassign", "orders", "--brokers", "2,3", "-o", "json").stdout
    )
    planned = json.loads(ours.read_text())["partitions"]
    wanted = [tuple(each["replicas"]) for each in planned]
    assert len(wanted) == 2
    plan = ("--reassignment-json-file", str(ours))
    said = run_tool(tool, *servers, *plan, "--execute").decode()
    assert "Successfully started partition reassignments" in said
    run.until(lambda: run.replicas("orders") == wanted)
    verified = run_tool(tool, *servers, *plan, "--verify").decode()
    assert verified.count("is completed") == 2
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "orders"}]}))
    generated = run_tool(
        tool,
        *servers,
        "--topics-to-move-json-file",
        str(topics),
        "--broker-list",
        "1,3",
        "--generate",
    ).decode()
    theirs = tmp_path / "theirs.json"
    theirs.write_text(generated.split("Proposed partition reassignment configuration\n")[1])
    run.done("topic", "reassign", "--plan", str(theirs), "--yes", "-o", "name")
    assert all(set(each) == {1, 3} for each in run.replicas("orders"))


def test_the_commands_work_with_apache_kafka(apache_kafka: str) -> None:
    where = at(apache_kafka)

    def rows(*arguments: str) -> list[dict[str, object]]:
        ran = ottla(*arguments, "-o", "jsonl", *where)
        assert ran.exit_code == 0, ran.stderr
        return ran.rows

    created = ottla("topic", "create", "administered", "-p", "2", "-r", "1", *where)
    assert created.exit_code == 0
    cluster, broker = rows("cluster", "describe")
    assert (cluster["controller"], cluster["brokers"], cluster["offline"]) == (1, 1, 0)
    assert (cluster["below_min_isr"], cluster["moving"]) == (0, 0)
    assert (broker["id"], broker["address"], broker["state"]) == (1, apache_kafka, "up")
    (listed,) = rows("broker", "list")
    assert listed == broker
    described = rows("broker", "describe", "1")
    assert [row["kind"] for row in described] == ["broker", "directory"]
    assert rows("topic", "replicate", "administered", "--factor", "1") == []
    assert rows("topic", "reassign", "administered") == []
    assert rows("topic", "reassign", "--status") == []
    assert rows("topic", "elect", "administered") == []
    refused = ottla("broker", "drain", "1", "--yes", *where)
    assert refused.exit_code == 1
    assert "0 other brokers are up" in refused.stderr
