"""`ottla cluster …` and `ottla broker …` against three brokers."""

import json
from collections.abc import Iterator

import pytest

from ottla.testing.cluster import Cluster
from tests.support.cli.cluster_commands import ClusterCommands

RACKS = ["a", "b", "c", "d"]


@pytest.fixture
def run() -> Iterator[ClusterCommands]:
    with Cluster(3, racks=RACKS) as cluster:
        yield ClusterCommands(cluster)


def broker_rows(run: ClusterCommands) -> dict[int, dict[str, object]]:
    return {row["id"]: row for row in run.done("broker", "list", "-o", "jsonl").rows}


def test_a_cluster_is_described_while_a_broker_is_down_and_after(run: ClusterCommands) -> None:
    run.create("orders", [[1, 2, 3], [3, 1, 2]])
    run.create("logs", [[2]])
    (row,) = run.done("cluster", "describe", "-o", "jsonl").rows_of("cluster")
    assert len(row.pop("cluster_id")) == 22
    assert row == {
        "kind": "cluster",
        "controller": 1,
        "brokers": 3,
        "topics": 2,
        "partitions": 3,
        "under_replicated": 0,
        "offline": 0,
        "below_min_isr": 0,
        "moving": 0,
        "possible_losses": 0,
    }
    run.cluster.kill(2)
    run.until(lambda: len(broker_rows(run)) == 3 and broker_rows(run)[2]["state"] == "down")
    (row,) = run.done("cluster", "describe", "-o", "jsonl").rows_of("cluster")
    assert (row["brokers"], row["under_replicated"], row["offline"]) == (2, 3, 1)
    assert (row["below_min_isr"], row["moving"]) == (1, 0)
    down = broker_rows(run)[2]
    assert (down["address"], down["leaders"], down["replicas"]) == (None, 0, 3)
    assert (down["out_of_sync"], down["led_elsewhere"]) == (3, 1)


def test_brokers_are_listed_with_rack_address_and_load(run: ClusterCommands) -> None:
    run.create("orders", [[1, 2], [2, 3], [2, 1]])
    rows = broker_rows(run)
    assert sorted(rows) == [1, 2, 3]
    addresses = run.cluster.bootstrap_servers.split(",")
    assert [row["address"] for row in rows.values()] == addresses
    assert [row["rack"] for row in rows.values()] == RACKS[:3]
    assert [row["leaders"] for row in rows.values()] == [1, 2, 0]
    assert [row["replicas"] for row in rows.values()] == [2, 3, 1]
    assert [row["is_controller"] for row in rows.values()] == [True, False, False]
    names = run.done("broker", "list", "-o", "name").stdout
    assert names.splitlines() == ["1", "2", "3"]


def test_a_broker_is_described_with_its_directories_and_problems(run: ClusterCommands) -> None:
    run.create("orders", [[1, 2, 3], [2, 3, 1]])
    run.done("produce", "orders", "--partition", "0", text="a\nb\nc\n")
    ran = run.done("broker", "describe", "1", "-o", "jsonl")
    (directory,) = ran.rows_of("directory")
    assert (directory["state"], directory["replicas"]) == ("ok", 2)
    assert directory["bytes"] > 0
    assert 0 < directory["free_bytes"] < directory["total_bytes"]
    assert ran.rows_of("partition") == []
    run.cluster.kill(2)
    run.until(lambda: broker_rows(run)[2]["out_of_sync"] == 2)
    rows = run.done("broker", "describe", "2", "-o", "jsonl").rows_of("partition")
    assert [(row["partition"], row["problem"]) for row in rows] == [
        ("orders-0", "out of sync"),
        ("orders-1", "out of sync"),
        ("orders-1", "preferred leader, does not lead"),
    ]
    assert {row["leader"] for row in rows} == {1, 3}


@pytest.mark.parametrize("command", [["describe", "9"], ["drain", "9"], ["drain", "9", "--cancel"]])
def test_a_broker_that_is_not_there_is_not_found(run: ClusterCommands, command: list[str]) -> None:
    ran = run("broker", *command)
    assert ran.exit_code == 4
    assert ran.stderr.splitlines() == [
        "error: no broker '9'",
        "  try: `ottla broker list` shows the existing ones",
    ]


def test_a_drain_needs_as_many_other_brokers_as_replicas(run: ClusterCommands) -> None:
    run.create("orders", [[1, 2, 3]])
    ran = run("broker", "drain", "3", "--yes")
    assert ran.exit_code == 1
    assert ran.stderr.splitlines() == [
        "error: orders-0 has 3 replicas, and 2 other brokers are up",
        "  why: two replicas of a partition cannot be on one broker",
        "  try: start another broker, or `ottla topic replicate orders --factor 2`",
    ]
    assert run.replicas("orders") == [(1, 2, 3)]


def test_a_drain_shows_its_plan_and_empties_the_broker_with_yes(run: ClusterCommands) -> None:
    topics = {"orders": [1, 2, 3], "logs": [3, 1], "clicks": [3]}
    for topic, replicas in topics.items():
        run.create(topic, [replicas])
        run.done("produce", topic, text="a\nb\nc\n")
    # Internal topics are drained too.
    run.done("group", "reset", "billing", "--to", "0", "-t", "orders", "--yes")
    run.cluster.add(4)
    plan = run.done("broker", "drain", "3", "-o", "jsonl")
    rows = {row["name"]: row for row in plan.rows}
    assert rows["orders-0"]["will_have"] == "1,2,4"
    assert (rows["orders-0"]["adding"], rows["orders-0"]["removing"]) == ("4", "3")
    assert rows["orders-0"]["bytes_to_copy"] > 0
    assert any(name.startswith("__consumer_offsets-") for name in rows)
    assert "nothing was changed: `--yes` copies" in plan.stderr
    assert {topic: list(run.replicas(topic)[0]) for topic in topics} == topics
    done = run.done("broker", "drain", "3", "--yes", "-o", "name")
    assert done.stderr.splitlines()[-1] == "broker 3 has no replicas: it can be removed"
    assert broker_rows(run)[3]["replicas"] == 0
    run.cluster.kill(3)
    for topic in topics:
        assert run.done("consume", topic).stdout == "a\nb\nc\n"
    again = run("broker", "drain", "3", "--yes")
    assert (again.exit_code, again.stderr.splitlines()[0]) == (4, "error: no broker '3'")


def test_a_broker_that_is_down_is_drained_from_its_followers(run: ClusterCommands) -> None:
    run.create("orders", [[3, 2], [2, 3]])
    for partition in "01":
        run.done("produce", "orders", "--partition", partition, text="a\nb\n")
    run.cluster.kill(3)
    run.until(lambda: broker_rows(run)[3]["out_of_sync"] == 2)
    run.done("broker", "drain", "3", "--yes", "-o", "name")
    assert [set(each) for each in run.replicas("orders")] == [{1, 2}, {1, 2}]
    run.cluster.kill(2)
    for partition in "01":
        assert run.done("consume", "orders", "--partition", partition).stdout == "a\nb\n"


def test_a_partition_that_nobody_leads_is_not_drained(run: ClusterCommands) -> None:
    run.create("orders", [[3]])
    run.create("logs", [[2, 3]])
    run.cluster.kill(3)
    run.until(lambda: broker_rows(run)[3]["state"] == "down")
    ran = run("broker", "drain", "3", "--yes")
    assert ran.exit_code == 1
    assert ran.stderr.splitlines()[0] == "error: nobody leads orders-0"
    assert "--unavailable" in ran.stderr
    assert (run.replicas("orders"), run.replicas("logs")) == ([(3,)], [(2, 3)])


def test_a_drain_as_json_is_a_plan_of_kafkas_tool(run: ClusterCommands) -> None:
    run.create("orders", [[3, 1]])
    plan = json.loads(run.done("broker", "drain", "3", "-o", "json").stdout)
    assert plan == {
        "version": 1,
        "partitions": [
            {"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}
        ],
    }


def test_a_doctor_examines_a_cluster(run: ClusterCommands) -> None:
    run.create("orders", [[1, 2, 3]])
    run.create("logs", [[1]])
    rows = {row["name"]: row for row in run("doctor", "-o", "jsonl").rows}
    checks = [
        "same versions",
        "controller",
        "same metadata",
        "brokers down",
        "min ISR",
        "lost records",
        "internal topics",
        "leaders",
    ]
    assert {name: rows[name]["state"] for name in checks} == dict.fromkeys(checks, "ok")
    assert rows["min.insync.replicas"]["state"] == "limited"
    assert rows["min.insync.replicas"]["found"].endswith("one copy only: orders")
    assert rows["replication"]["state"] == "limited"
    assert rows["replication"]["found"] == "fewer than 2 replicas: logs"
    assert rows["replication"]["advice"] == "`ottla topic replicate logs --factor 3`"
    run.cluster.kill(2)
    run.cluster.kill(1)
    run.until(lambda: broker_rows(run)[1]["state"] == "down")
    ran = run("doctor", "-o", "jsonl")
    assert ran.exit_code == 6
    rows = {row["name"]: row for row in ran.rows}
    assert rows["brokers down"]["found"] == "broker 1, 2 has replicas, and is down"
    assert rows["controller"]["found"] == "broker 3"
    assert (rows["leaders"]["state"], rows["partitions"]["state"]) == ("limited", "broken")
