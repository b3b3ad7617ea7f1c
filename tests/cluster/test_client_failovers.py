"""Clients of all kinds write and read while brokers are killed: nothing is lost, twice or late.

All clients are at work at once, so that each kill meets all of them.
"""

from collections.abc import Callable
from pathlib import Path

from tests.support.clients.steady_clients import (
    NAMES,
    assert_each_record_once_and_in_order,
    steady_clients,
    wait_for_progress,
)
from tests.support.cluster_processes import ClusterProcesses


def leader(cluster: ClusterProcesses) -> int:
    """It leads a partition of every topic: all of them have as many partitions as brokers."""
    return cluster.leader(NAMES[0], 0)


VICTIMS: tuple[Callable[[ClusterProcesses], int], ...] = (
    leader,
    ClusterProcesses.group_coordinator,
    ClusterProcesses.controller,
)


def test_clients_go_on_when_brokers_are_killed_and_stay_down(tmp_path: Path, connect: str) -> None:
    with ClusterProcesses(tmp_path, connect) as cluster, steady_clients(cluster, tmp_path) as all_:
        for victim in VICTIMS:
            killed = victim(cluster)
            cluster.kill(killed)
            cluster.wait_until_led_by_others(killed)
            wait_for_progress(cluster, all_)
            cluster.start(killed)
            cluster.wait_for_all_isrs()
        assert_each_record_once_and_in_order(cluster, all_)


def test_clients_go_on_when_brokers_are_killed_and_start_again(
    tmp_path: Path, connect: str
) -> None:
    with ClusterProcesses(tmp_path, connect) as cluster, steady_clients(cluster, tmp_path) as all_:
        for victim in VICTIMS:
            killed = victim(cluster)
            cluster.kill(killed)
            cluster.start(killed)
            cluster.wait_for_all_isrs()
            wait_for_progress(cluster, all_)
        assert_each_record_once_and_in_order(cluster, all_)
