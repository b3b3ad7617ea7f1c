"""All brokers are restarted one after another under load: no produce fails, nothing is lost."""

from pathlib import Path

from tests.support.clients.steady_clients import (
    assert_each_record_once_and_in_order,
    steady_clients,
    wait_for_progress,
)
from tests.support.cluster_processes import ClusterProcesses


def test_no_produce_fails_in_a_rolling_restart(tmp_path: Path, connect: str) -> None:
    with ClusterProcesses(tmp_path, connect) as cluster, steady_clients(cluster, tmp_path) as all_:
        for broker_id in (1, 2, 3):
            cluster.stop(broker_id)
            wait_for_progress(cluster, all_)
            cluster.start(broker_id)
            cluster.wait_for_all_isrs()
        wait_for_progress(cluster, all_)
        assert_each_record_once_and_in_order(cluster, all_)
