"""The verdict of the chaos workload on a real cluster: it names lost writes, and nothing else."""

import os
import signal
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cluster.chaos.anomaly import Kind
from tests.cluster.chaos.workload import RECORDS, Workload
from tests.cluster.test_up import QUIET, WAIT_S, pid_of, servers_of, until, up

SEED = 1
UNREPLICATED = 20
BROKERS = {1, 2, 3}


def led_partitions(servers: str) -> dict[int, list[int]]:
    """The partitions of the producers' topic, by leader."""
    admin = AdminClient({"bootstrap.servers": servers, **QUIET})
    found: dict[int, list[int]] = {}
    for number, partition in (
        admin.list_topics(RECORDS, timeout=WAIT_S).topics[RECORDS].partitions.items()
    ):
        found.setdefault(partition.leader, []).append(number)
    return found


def kill_leader_with_records_that_no_follower_has(
    data: Path, leader: int, workload: Workload, histories: Path
) -> None:
    """The followers are stopped, too shortly to leave the ISR or to lose their sessions."""
    followers = [pid_of(data, each) for each in BROKERS - {leader}]
    for follower in followers:
        os.kill(follower, signal.SIGSTOP)
    try:
        sent, acknowledged = sent_so_far(histories), workload.acknowledged()
        until(lambda: sent_so_far(histories) >= sent + 2 * UNREPLICATED)
        if workload.acks != "all":
            until(lambda: workload.acknowledged() >= acknowledged + UNREPLICATED)
        os.kill(pid_of(data, leader), signal.SIGKILL)
    finally:
        for follower in followers:
            os.kill(follower, signal.SIGCONT)


def sent_so_far(histories: Path) -> int:
    return sum(path.read_text().count('"event": "Sent"') for path in histories.glob("*.jsonl"))


@pytest.mark.parametrize("acks", ["1", "all"])
def test_a_leader_that_dies_ahead_of_its_followers_loses_only_what_it_acknowledged_alone(
    tmp_path: Path, acks: str
) -> None:
    data, histories = tmp_path / "cluster", tmp_path / "clients"
    with up(data, "--brokers", "3", "--zookeeper-servers", "1", "--no-restart") as running:
        servers = servers_of(data)
        with closing(Workload(servers, histories, seed=SEED, acks=acks)) as workload:
            workload.start()
            leader, partitions = next(iter(led_partitions(servers).items()))
            kill_leader_with_records_that_no_follower_has(data, leader, workload, histories)
            acknowledged = workload.acknowledged()
            until(lambda: workload.acknowledged() > acknowledged + 100)
            verdict = workload.finish(WAIT_S)
        running.stop()
    lost = [each for each in verdict.anomalies if each.kind is Kind.LOST_WRITE]
    if acks == "all":
        assert verdict.anomalies == [], verdict
    else:
        assert len(lost) >= UNREPLICATED // 2, verdict
        assert {
            (each.partition.topic, each.partition.number) for each in lost if each.partition
        } <= {(RECORDS, number) for number in partitions}
    assert verdict.acknowledged > 0
