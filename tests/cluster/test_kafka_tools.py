"""Kafka's own command line tools against three broker processes."""

import json
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from ottla.cli.cluster.zookeeper_servers import ZooKeeperServers
from tests.support.cluster_processes import QUIET, WAIT_S, ClusterProcesses
from tests.support.compat.java_tools import run_tool, try_tool
from tests.support.transactional_producer import TransactionalProducer
from tests.support.zookeeper import new_chroot

REASSIGN = "reassign.ReassignPartitionsCommand"
# A copy of all records at this rate takes longer than a test.
SLOW_BYTES_PER_S = 2_000
RECORDS, RECORD_BYTES = 300, 10_000


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, ensemble: ZooKeeperServers
) -> Iterator[ClusterProcesses]:
    connect = ensemble.connect_string + new_chroot()
    # Leaders change when a test wants it.
    settings = {"auto.leader.rebalance.enable": "false"}
    with ClusterProcesses(tmp_path_factory.mktemp("brokers"), connect, 3, settings) as cluster:
        yield cluster


def run(cluster: ClusterProcesses, tool: str, *arguments: str) -> str:
    return run_tool(tool, "--bootstrap-server", cluster.bootstrap_servers, *arguments).decode()


def create(cluster: ClusterProcesses, topic: str, *replicas: list[int], **configs: str) -> None:
    """A topic whose partitions have these replicas, all in sync on return."""
    given = {name.replace("_", "."): value for name, value in configs.items()}
    wanted = NewTopic(topic, len(replicas), replica_assignment=list(replicas), config=given)
    cluster.admin.create_topics([wanted])[topic].result(WAIT_S)
    cluster.wait_for_all_isrs()


def fill(cluster: ClusterProcesses, topic: str, records: int = RECORDS) -> None:
    """Records of partition 0."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
    refused: list[KafkaError] = []
    for _ in range(records):
        producer.produce(
            topic,
            bytes(RECORD_BYTES),
            partition=0,
            on_delivery=lambda error, _: error and refused.append(error),
        )
    assert producer.flush(WAIT_S) == 0
    assert refused == []


def test_every_broker_is_asked_for_its_versions_and_any_one_for_the_quorum(
    cluster: ClusterProcesses,
) -> None:
    versions = run(cluster, "BrokerApiVersionsCommand")
    for broker_id in (1, 2, 3):
        assert re.search(
            rf"^{cluster.address(broker_id)} \(id: {broker_id} rack: null .*-> \($", versions, re.M
        )
    assert len(re.findall(r"Produce\(0\): .*\[usable: 13\]", versions)) == 3
    assert "UNSUPPORTED" not in versions.partition("Produce")[0]
    controller = cluster.controller()
    status = run(cluster, "MetadataQuorumCommand", "describe", "--status")
    assert re.search(rf"LeaderId: +{controller}\n", status)
    assert re.search(r"HighWatermark: +[1-9]", status)
    assert f'"id": {controller}' in status.partition("CurrentVoters")[2]
    replication = run(cluster, "MetadataQuorumCommand", "describe", "--replication")
    (row,) = replication.splitlines()[1:]
    node_id, _, log_end, lag, *_, role = row.split()
    assert (int(node_id), int(lag), role) == (controller, 0, "Leader")
    assert int(log_end) > 0


def test_topics_show_what_a_broker_that_is_down_takes_along(cluster: ClusterProcesses) -> None:
    made = run(
        cluster,
        "TopicCommand",
        *("--create", "--topic", "described", "--partitions", "3", "--replication-factor", "3"),
    )
    assert "Created topic described." in made
    create(cluster, "single", [2])
    cluster.wait_for_all_isrs()
    described = run(cluster, "TopicCommand", "--describe", "--topic", "described")
    assert "PartitionCount: 3\tReplicationFactor: 3" in described
    rows = re.findall(r"Leader: (\d)\tReplicas: (\S+)\tIsr: (\S+)\t", described)
    assert sorted(leader for leader, _, _ in rows) == ["1", "2", "3"]
    assert all(leader == replicas[0] for leader, replicas, _ in rows)
    assert all(sorted(isr.split(",")) == ["1", "2", "3"] for _, _, isr in rows)
    cluster.kill(2)
    cluster.until(lambda: cluster.partitions("single")[0].leader == -1)
    cluster.until(
        lambda: all(len(each.isrs) == 2 for each in cluster.partitions("described").values())
    )
    try:
        under = run(cluster, "TopicCommand", "--describe", "--under-replicated-partitions")
        assert len(re.findall(r"Topic: described\t.*Isr: [13],[13]\t", under)) == 3
        at_min = run(cluster, "TopicCommand", "--describe", "--at-min-isr-partitions")
        assert len(re.findall(r"Topic: described\t", at_min)) == 3
        gone = run(cluster, "TopicCommand", "--describe", "--unavailable-partitions")
        assert re.findall(r"Topic: (\S+)\t.*Leader: none\tReplicas: (\S+)\t", gone) == [
            ("single", "2")
        ]
    finally:
        cluster.start(2)
    cluster.wait_for_all_isrs()
    # Nobody could lead it while broker 2 is down in another test.
    run(cluster, "TopicCommand", "--delete", "--topic", "single")
    assert "Topic:" not in run(
        cluster, "TopicCommand", "--describe", "--under-replicated-partitions"
    )


def test_a_preferred_leader_leads_again_and_an_unclean_one_where_it_is_asked_for(
    cluster: ClusterProcesses,
) -> None:
    create(cluster, "elected", [3, 1, 2])
    create(cluster, "unclean", [2, 1], min_insync_replicas="1")
    cluster.stop(3)
    cluster.wait_until_led_by_others(3)
    cluster.start(3)
    cluster.wait_for_all_isrs()
    assert cluster.leader("elected", 0) != 3
    preferred = run(
        cluster,
        "LeaderElectionCommand",
        *("--election-type", "preferred", "--topic", "elected", "--partition", "0"),
    )
    assert (
        "Successfully completed leader election (PREFERRED) for partitions elected-0" in preferred
    )
    cluster.until(lambda: cluster.leader("elected", 0) == 3)

    # Replica 1 lacks a record that replica 2 alone has acknowledged.
    cluster.kill(1)
    cluster.until(lambda: cluster.partitions("unclean")[0].isrs == [2])
    fill(cluster, "unclean", 1)
    cluster.kill(2)
    cluster.until(lambda: cluster.partitions("unclean")[0].leader == -1)
    cluster.start(1)
    assert cluster.partitions("unclean")[0].leader == -1
    unclean = run(
        cluster,
        "LeaderElectionCommand",
        *("--election-type", "unclean", "--topic", "unclean", "--partition", "0"),
    )
    assert "Successfully completed leader election (UNCLEAN) for partitions unclean-0" in unclean
    cluster.until(lambda: cluster.leader("unclean", 0) == 1)
    cluster.start(2)
    cluster.wait_for_all_isrs()
    refused = try_tool(
        "LeaderElectionCommand",
        *("--bootstrap-server", cluster.bootstrap_servers, "--election-type", "preferred"),
        *("--topic", "no-such-topic", "--partition", "0"),
    )
    assert refused.returncode == 1
    assert b"UnknownTopicOrPartitionException" in refused.stdout


def plan_file(path: Path, topic: str, *replicas: list[int]) -> tuple[str, str]:
    partitions = [
        {"topic": topic, "partition": number, "replicas": each, "log_dirs": ["any"] * len(each)}
        for number, each in enumerate(replicas)
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return "--reassignment-json-file", str(path)


def test_a_reassignment_is_planned_throttled_watched_cancelled_and_done(
    cluster: ClusterProcesses, tmp_path: Path
) -> None:
    create(cluster, "moved", [1, 2])
    fill(cluster, "moved")
    topics = tmp_path / "topics.json"
    topics.write_text(json.dumps({"version": 1, "topics": [{"topic": "moved"}]}))
    generated = run(
        cluster,
        REASSIGN,
        *("--topics-to-move-json-file", str(topics), "--broker-list", "2,3", "--generate"),
    )
    current, proposed = re.findall(r"^\{.*\}$", generated, re.M)
    assert json.loads(current)["partitions"][0]["replicas"] == [1, 2]
    assert set(json.loads(proposed)["partitions"][0]["replicas"]) == {2, 3}

    plan = plan_file(tmp_path / "plan.json", "moved", [2, 3])
    throttle = ("--throttle", str(SLOW_BYTES_PER_S))
    begun = run(cluster, REASSIGN, *plan, "--execute", *throttle)
    assert "Successfully started partition reassignment for moved-0" in begun
    assert "The inter-broker throttle limit was set to 2000 B/s" in begun
    running = run(cluster, REASSIGN, *plan, "--verify")
    assert "Reassignment of partition moved-0 is still in progress." in running
    listed = run(cluster, REASSIGN, "--list")
    assert re.search(r"moved-0: replicas: \S+\. adding: 3\. removing: 1\.", listed)
    rates = run(cluster, "kafka.admin.ConfigCommand", "--describe", "--entity-type", "brokers")
    assert rates.count(f"replication.throttled.rate={SLOW_BYTES_PER_S}") >= 6
    cancelled = run(cluster, REASSIGN, *plan, "--cancel")
    assert "Successfully cancelled partition reassignment for: moved-0" in cancelled
    cluster.until(lambda: sorted(cluster.partitions("moved")[0].replicas) == [1, 2])
    assert "No partition reassignments found." in run(cluster, REASSIGN, "--list")

    run(cluster, REASSIGN, *plan, "--execute", "--throttle", "50000000")
    cluster.until(lambda: list(cluster.partitions("moved")[0].replicas) == [2, 3])
    verified = run(cluster, REASSIGN, *plan, "--verify")
    assert "Reassignment of partition moved-0 is completed." in verified
    assert "Clearing broker-level throttles on brokers 1,2,3" in verified
    cluster.wait_for_all_isrs()

    dirs = run(cluster, "LogDirsCommand", "--describe", "--topic-list", "moved")
    (told,) = [json.loads(line) for line in dirs.splitlines() if line.startswith("{")]
    replicas = {
        broker["broker"]: [
            (each["partition"], each["size"] > RECORDS * RECORD_BYTES, each["offsetLag"])
            for directory in broker["logDirs"]
            for each in directory["partitions"]
        ]
        for broker in told["brokers"]
    }
    assert replicas == {1: [], 2: [("moved-0", True, 0)], 3: [("moved-0", True, 0)]}


def test_configs_reach_all_brokers_or_one(cluster: ClusterProcesses) -> None:
    tool = "kafka.admin.ConfigCommand"
    brokers = ("--entity-type", "brokers")
    one = (*brokers, "--entity-name", "2")
    run(
        cluster, tool, "--alter", *brokers, "--entity-default", "--add-config", "log.retention.ms=7"
    )
    run(cluster, tool, "--alter", *one, "--add-config", "log.retention.ms=8")
    described = run(cluster, tool, "--describe", *one)
    assert (
        "DYNAMIC_BROKER_CONFIG:log.retention.ms=8, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7"
    ) in described
    other = run(cluster, tool, "--describe", "--all", *brokers, "--entity-name", "3")
    assert re.search(r"log\.retention\.ms=7 .*DYNAMIC_DEFAULT_BROKER_CONFIG", other)
    run(cluster, tool, "--alter", *one, "--delete-config", "log.retention.ms")
    run(
        cluster,
        tool,
        *("--alter", *brokers, "--entity-default", "--delete-config", "log.retention.ms"),
    )


def test_groups_and_transactions_are_found_at_whoever_coordinates_them(
    cluster: ClusterProcesses,
) -> None:
    servers = cluster.bootstrap_servers
    create(cluster, "grouped", [1, 2, 3])
    fill(cluster, "grouped", 10)
    with closing(Consumer({"bootstrap.servers": servers, "group.id": "readers"})) as consumer:
        consumer.commit(offsets=[TopicPartition("grouped", 0, 4)], asynchronous=False)
    transactional = TransactionalProducer(servers, "payments")
    transactional.begin()
    transactional.write("grouped", 0, ["paid"], 1_700_000_000_000)

    groups = "consumer.group.ConsumerGroupCommand"
    state = run(cluster, groups, "--describe", "--group", "readers", "--state")
    coordinator = cluster.group_coordinator()
    assert f"{cluster.address(coordinator)} ({coordinator})" in re.sub(r"\s+", " ", state)
    cluster.kill(coordinator)
    cluster.wait_until_led_by_others(coordinator)
    try:
        offsets = run(cluster, groups, "--describe", "--group", "readers", "--offsets")
        assert re.search(r"readers +grouped +0 +4 +\d+ +\d+ ", offsets)
        listed = run(cluster, "TransactionsCommand", "list")
        assert re.search(r"payments\s+[123]\s+\d+\s+Ongoing", listed)
        transactional.commit()
        described = run(
            cluster, "TransactionsCommand", "describe", "--transactional-id", "payments"
        )
        assert re.search(r"payments\s+\d+\s+\d+\s+(CompleteCommit|PrepareCommit)", described)
    finally:
        cluster.start(coordinator)
    cluster.wait_for_all_isrs()
