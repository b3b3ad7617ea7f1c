"""Leaders, replicas and producers of partitions, as tools and clients of others ask for them."""

import json
import re
from pathlib import Path

from ottla.errors import ErrorCode
from tests.support.clients.admins import LibrdkafkaAdmin
from tests.support.clients.client import WAIT_S, numbered
from tests.support.clients.kafka_python import (
    KafkaAdminClient,
    KafkaProducer,
    TopicPartition,
    TopicPartitionReplica,
)
from tests.support.clients.librdkafka import Librdkafka
from tests.support.compat.java_tools import run_tool, try_tool


def test_kafkas_tools_find_leaders_and_replicas_where_they_should_be(
    servers: str, topic: str, tmp_path: Path
) -> None:
    LibrdkafkaAdmin(servers).create(topic, 2, {})
    election = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    held = try_tool("LeaderElectionCommand", "--bootstrap-server", servers, *election)
    assert b"Valid replica already elected" in held.stdout + held.stderr

    plan = tmp_path / "plan.json"
    wish = {"topic": topic, "partition": 0, "replicas": [1]}
    plan.write_text(json.dumps({"version": 1, "partitions": [wish]}))

    def reassign(*arguments: str) -> str:
        tool = ("reassign.ReassignPartitionsCommand", "--bootstrap-server", servers)
        return run_tool(*tool, *arguments).decode()

    started = reassign("--reassignment-json-file", str(plan), "--execute")
    assert "Successfully started partition reassignment" in started
    assert "is completed" in reassign("--reassignment-json-file", str(plan), "--verify")
    assert "No partition reassignments found" in reassign("--list")


def test_kafkas_tool_lists_the_producers_of_a_partition(servers: str, topic: str) -> None:
    LibrdkafkaAdmin(servers).create(topic, 1, {})
    producer = KafkaProducer(bootstrap_servers=servers, enable_idempotence=True, acks="all")
    for _ in range(3):
        producer.send(topic, b"value", partition=0).get(timeout=WAIT_S)
    producer.close()
    Librdkafka().write(servers, topic, numbered(1))

    asked = ("describe-producers", "--topic", topic, "--partition", "0")
    printed = run_tool("TransactionsCommand", "--bootstrap-server", servers, *asked).decode()

    rows = [line.split() for line in printed.splitlines()[1:]]
    (row,) = rows
    epoch, coordinator_epoch, last_sequence = row[1:4]
    assert re.fullmatch(r"\d+", row[0])
    assert (epoch, coordinator_epoch, last_sequence, row[5]) == ("0", "-1", "2", "None")


def test_kafka_python_asks_for_leaders_replicas_and_directories(servers: str, topic: str) -> None:
    LibrdkafkaAdmin(servers).create(topic, 2, {})
    admin = KafkaAdminClient(bootstrap_servers=servers)
    try:
        elected = admin.elect_leaders(0, {topic: [0, 1]}).replica_election_results
        assert [(each[0], each[1]) for each in elected[0][1]] == [
            (0, ErrorCode.ELECTION_NOT_NEEDED),
            (1, ErrorCode.ELECTION_NOT_NEEDED),
        ]
        partition = TopicPartition(topic, 0)
        assert admin.alter_partition_reassignments({partition: [1]}) == {partition: None}
        assert admin.list_partition_reassignments() == {}
        (broker,) = admin.describe_log_dirs()
        replica = TopicPartitionReplica(topic, 0, broker["broker"])
        (moved,) = admin.alter_replica_log_dirs(
            {replica: broker["log_dirs"][0]["log_dir"]}
        ).values()
        assert moved.errno == ErrorCode.NONE
    finally:
        admin.close()
