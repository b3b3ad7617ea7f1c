"""A cluster of three brokers grows to five under load."""

from pathlib import Path

from tests.support.cli.run_command import at, ottla
from tests.support.clients.steady_clients import (
    NAMES,
    assert_each_record_once_and_in_order,
    steady_clients,
    wait_for_progress,
)
from tests.support.cluster_processes import ClusterProcesses


def test_no_produce_fails_when_partitions_move_to_new_brokers(tmp_path: Path, connect: str) -> None:
    with ClusterProcesses(tmp_path, connect) as cluster, steady_clients(cluster, tmp_path) as all_:
        for broker_id in (4, 5):
            cluster.start(broker_id)
        moved = ottla("topic", "reassign", "--all", "--yes", "-o", "name", *at(cluster.address(4)))
        assert moved.exit_code == 0, moved.stderr
        replicas = [
            broker_id
            for name in NAMES
            for partition in cluster.partitions(name).values()
            for broker_id in partition.replicas
        ]
        assert set(replicas) == {1, 2, 3, 4, 5}
        wait_for_progress(cluster, all_)
        cluster.stop(1)
        wait_for_progress(cluster, all_)
        assert_each_record_once_and_in_order(cluster, all_)
