"""`ottla doctor`: its findings and its exit code."""

import asyncio
import resource
import shutil
from pathlib import Path

import pytest

from ottla.address import Address
from ottla.broker.http.health import Health
from ottla.broker.http.server import HttpServer
from ottla.cli.cluster.health import Health as ClusterState
from ottla.cli.doctor import machine
from ottla.cli.doctor.broker import check_cluster
from ottla.cli.doctor.cluster import _check_min_isr_fits
from ottla.cli.doctor.finding import Finding, FindingState
from ottla.cli.doctor.health_pages import check_health_pages
from ottla.cli.doctor.views import find_difference
from ottla.cli.reassignment.survey import Survey
from ottla.client.routing.topology import Broker as TopologyBroker
from ottla.client.routing.topology import Partition, Topic, Topology
from ottla.protocol.primitives import ZERO_UUID
from ottla.seams.net import RealNet
from ottla.testing.broker import Broker
from tests.sim.seams.loop import run
from tests.support.cli.run_command import ottla
from tests.support.client.fake_cluster import FakeCluster
from tests.unit.cli.conftest import AtBroker

NAMES = ["python", "native code", "java", "disk", "open files", "clock"]


def test_a_broker_that_answers_is_examined(at_broker: AtBroker, broker: Broker) -> None:
    ran = at_broker("doctor", "-o", "jsonl")
    assert [row["name"] for row in ran.rows] == [
        *NAMES,
        "broker",
        "versions",
        "broker 1",
        "partitions",
    ]
    found = {row["name"]: row for row in ran.rows}
    assert (
        found["broker"]["found"] == f"{broker.bootstrap_servers} responds, one of 1 in the cluster"
    )
    assert {row["state"] for row in ran.rows[len(NAMES) :]} == {"ok"}


def test_a_broker_that_must_answer_and_does_not_ends_with_6() -> None:
    ran = ottla("doctor", "--bootstrap", "127.0.0.1:1", "-o", "jsonl")
    assert ran.exit_code == 6
    row = ran.rows[-1]
    assert (row["name"], row["state"]) == ("broker", "broken")
    assert "Connection refused" in row["found"]
    assert "ottla up" in row["advice"]


def test_each_broker_must_be_reached_at_the_address_it_gives() -> None:
    async def story() -> None:
        async with FakeCluster(2) as cluster, cluster.router() as router:
            await cluster.brokers[2].stop()
            findings = await check_cluster(router, must_answer=True)
        first, versions, one, two, *_, partitions = findings
        assert partitions.state is FindingState.OK
        assert first.found == "b1:9092 responds, one of 2 in the cluster"
        assert versions.state is FindingState.LIMITED
        assert "the broker lacks Produce, Fetch" in versions.found
        assert (one.name, one.state) == ("broker 1", FindingState.OK)
        assert (two.name, two.state) == ("broker 2", FindingState.BROKEN)
        assert "b2:9092" in two.found
        assert two.advice is not None
        assert "advertised.listeners" in two.advice

    run(story())


@pytest.mark.parametrize(
    ("leaders", "in_sync", "state", "found"),
    [
        ([1, 1], (1, 2), FindingState.OK, "all 2 led and in sync"),
        ([1, 1], (1,), FindingState.LIMITED, "2 partitions of 2 under-replicated"),
        ([1, -1], (1,), FindingState.BROKEN, "1 partition of 2 without a leader"),
    ],
)
def test_partitions_without_a_leader_are_broken_and_those_without_a_replica_limited(
    leaders: list[int], in_sync: tuple[int, ...], state: FindingState, found: str
) -> None:
    async def story() -> None:
        async with FakeCluster(1) as cluster, cluster.router() as router:
            cluster.leaders = {"orders": leaders}
            cluster.replicas, cluster.in_sync = (1, 2), in_sync
            *_, partitions = await check_cluster(router, must_answer=True)
        assert (partitions.name, partitions.state) == ("partitions", state)
        assert partitions.found == found

    run(story())


def test_an_old_python_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine.check_python().state is FindingState.OK
    monkeypatch.setattr(machine.sys, "version_info", (3, 9, 0))
    assert machine.check_python().state is FindingState.BROKEN


@pytest.mark.parametrize(
    ("said", "state", "found"),
    [
        ('openjdk version "21.0.2" 2024-01-16', FindingState.OK, "21"),
        ('openjdk version "17" 2021', FindingState.OK, "17"),
        ('java version "1.8.0_392"', FindingState.LIMITED, "version 8"),
        ("no idea", FindingState.LIMITED, "unknown version"),
    ],
)
def test_javas_version_is_read_from_its_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, state: FindingState, found: str
) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(machine, "JAVA_TIMEOUT_S", 120.0)
    finding = machine.check_java()
    assert finding.state is state
    assert found in finding.found


def test_without_java_all_but_spark_and_clusters_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    finding = machine.check_java()
    assert (finding.state, finding.found) == (FindingState.LIMITED, "not found")


def test_the_disk_is_that_of_the_directory_above_if_there_is_no_data_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    plenty, little = usage._replace(free=50 << 30), usage._replace(free=1 << 20)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: plenty)
    finding = machine.check_disk(str(tmp_path / "not" / "yet"))
    assert (finding.state, finding.found[:8]) == (FindingState.OK, "50.0 GiB")
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda _: little)
    assert machine.check_disk(str(tmp_path)).state is FindingState.BROKEN


@pytest.mark.parametrize(
    ("limit", "state"),
    [
        (256, FindingState.LIMITED),
        (100_000, FindingState.OK),
        (resource.RLIM_INFINITY, FindingState.OK),
    ],
)
def test_few_descriptors_are_reported(
    monkeypatch: pytest.MonkeyPatch, limit: int, state: FindingState
) -> None:
    monkeypatch.setattr(machine.resource, "getrlimit", lambda _: (limit, limit))
    assert machine.check_descriptors().state is state


def test_a_clock_that_was_never_set_is_broken() -> None:
    assert machine.check_clock(0).state is FindingState.BROKEN
    assert machine.check_clock(1_800_000_000_000).state in (FindingState.OK, FindingState.LIMITED)


# --- views and health pages of several brokers ------------------------------------------------


def view(leader: int = 1, *, controller: int = 1, brokers: tuple[int, ...] = (1, 2)) -> Topology:
    partition = Partition(0, leader, 5, (1, 2), (1, 2), ())
    return Topology(
        brokers={each: TopologyBroker(each, Address("h", each), None) for each in brokers},
        controller=controller,
        topics={"orders": Topic("orders", ZERO_UUID, False, (partition,))},
    )


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (view(), None),
        (view(controller=2), "brokers 1 and 2 name the controllers 1 and 2"),
        (view(brokers=(1, 2, 3)), "only one of brokers 1 and 2 knows broker 3"),
        (view(leader=2), "brokers 1 and 2 differ in 1 partition: orders-0"),
    ],
    ids=["alike", "controller", "brokers", "partition"],
)
def test_brokers_that_see_different_clusters_are_named(
    other: Topology, difference: str | None
) -> None:
    assert find_difference({1: view(), 2: other}) == difference


def test_the_health_page_of_a_broker_is_read_and_a_missing_one_fails(broker: Broker) -> None:
    at = broker.metrics_address
    ran = ottla("doctor", "-b", broker.bootstrap_servers, "--health", at, "-o", "jsonl")
    assert (ran.rows[-1]["name"], ran.rows[-1]["found"]) == (f"health {at}", "ready")
    assert ran.exit_code == 0
    at = f"127.0.0.1:1,{at}"
    ran = ottla("doctor", "-b", broker.bootstrap_servers, "--health", at, "-o", "jsonl")
    assert ran.exit_code == 6
    assert [row["state"] for row in ran.rows[-2:]] == ["broken", "ok"]
    assert "no health page" in ran.rows[-2]["found"]


def test_a_broker_that_is_not_ready_fails_the_check_with_its_reasons() -> None:
    health = Health()
    health.ready.fail("replicas", "3 of 4 are out of sync")

    async def look() -> list[Finding]:
        server = HttpServer(RealNet(), health, lambda: iter(()))
        port = await server.start("127.0.0.1", 0)
        try:
            return await check_health_pages([Address("127.0.0.1", port)], 30.0, must_answer=True)
        finally:
            await server.close()

    (finding,) = asyncio.run(look())
    assert finding.state is FindingState.BROKEN
    assert finding.found == "not ready: replicas: 3 of 4 are out of sync"
    health.ready.clear("replicas")
    health.warnings.fail("possible data loss", "orders-0")
    (finding,) = asyncio.run(look())
    assert (finding.state, finding.found) == (FindingState.LIMITED, "possible data loss: orders-0")


@pytest.mark.parametrize(
    ("factor", "least", "found"),
    [
        (1, 1, "fits the replicas of all topics"),
        (2, 1, "fits the replicas of all topics"),
        (3, 2, "fits the replicas of all topics"),
        (2, 2, "one broker less stops acks=all: orders"),
        (3, 4, "one broker less stops acks=all: orders"),
        (3, 1, "acks=all may mean one copy only: orders"),
    ],
)
def test_min_insync_replicas_must_fit_the_replication_factor(
    factor: int, least: int, found: str
) -> None:
    replicas = tuple(range(1, factor + 1))
    topic = Topic("orders", ZERO_UUID, False, (Partition(0, 1, 0, replicas, replicas, ()),))
    survey = Survey({}, {"orders": topic}, {})
    finding = _check_min_isr_fits(ClusterState(survey, {"orders": least}, {}))
    assert finding.found.endswith(found)
    assert (finding.state is FindingState.OK) == found.startswith("fits")
