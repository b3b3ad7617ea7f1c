"""The ports of a cluster: those that were chosen, those of the last start, or free ones."""

import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from ottla.cli.broker.settings import BrokerFlags, ClusterFlags, load_settings
from ottla.cli.cluster.cluster_file import (
    FILE_NAME,
    BrokerPorts,
    ClusterPorts,
    read_cluster_file,
    write_cluster_file,
)
from ottla.cli.cluster.ports import ReservedPorts, choose_ports
from ottla.cli.cluster.serve_processes import member_flags
from ottla.cli.cluster.up import check_data
from ottla.cli.shared.failure import ExitCode, Failure
from tests.support.cli.run_command import ottla

SAVED = ClusterPorts(
    (2001, 2002, 2003), (BrokerPorts(3001, 4001, 5001), BrokerPorts(3002, 4002, 5002))
)


class Machine:
    """Gives ports above 10,000 for 0. Ports in `taken` are not given."""

    def __init__(self, *taken: int) -> None:
        self._taken = set(taken)
        self._next = 10_000

    def take(self, _host: str, port: int) -> int:
        if port == 0:
            self._next += 1
            port = self._next
        if port in self._taken:
            raise OSError(98, "Address already in use")
        self._taken.add(port)
        return port


def chosen(machine: Machine, saved: ClusterPorts | None, brokers: int, port: int) -> ClusterPorts:
    return choose_ports(
        machine.take,
        saved,
        brokers=brokers,
        zookeeper_servers=1,
        host="127.0.0.1",
        kafka_port=port,
        metrics_port=None,
    )


def test_brokers_count_up_from_the_chosen_port() -> None:
    ports = chosen(Machine(), None, 3, 9092)
    assert [each.kafka for each in ports.brokers] == [9092, 9093, 9094]
    others = [each.inter_broker for each in ports.brokers] + [
        each.metrics for each in ports.brokers
    ]
    assert len({*others, *ports.zookeeper}) == 9
    assert min(others) > 10_000


def test_the_ports_of_the_last_start_are_used_again_if_they_are_free() -> None:
    assert chosen(Machine(), SAVED, 2, 0) == SAVED
    ports = chosen(Machine(4001, 2002), SAVED, 3, 0)
    assert ports.brokers[0].inter_broker > 10_000
    assert ports.brokers[1] == SAVED.brokers[1]
    assert ports.brokers[2].kafka > 10_000
    assert ports.zookeeper[0] == 2001
    assert ports.zookeeper[1] > 10_000


def test_a_port_that_is_taken_is_named_with_its_process(port: int) -> None:
    with socket.socket() as listening, ExitStack() as exits:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", port))
        listening.listen()
        with pytest.raises(Failure) as failed:
            choose_ports(
                ReservedPorts(exits).take,
                None,
                brokers=2,
                zookeeper_servers=1,
                host="127.0.0.1",
                kafka_port=port,
                metrics_port=None,
            )
    assert f"port {port} is taken by " in failed.value.what
    assert f"process {os.getpid()}" in failed.value.what


def test_a_reserved_port_can_be_listened_on() -> None:
    with ExitStack() as exits:
        port = ReservedPorts(exits).take("127.0.0.1", 0)
        with socket.socket() as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(("127.0.0.1", port))
            listening.listen()


def test_more_brokers_than_ports_are_refused() -> None:
    with pytest.raises(Failure, match="65534 to 65536") as failed:
        chosen(Machine(), None, 3, 65534)
    assert failed.value.exit_code is ExitCode.USAGE


def test_the_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_cluster_file(str(tmp_path)) is None
    write_cluster_file(str(tmp_path), SAVED)
    assert read_cluster_file(str(tmp_path)) == SAVED
    (tmp_path / FILE_NAME).write_text("{}")
    with pytest.raises(Failure, match="cannot be read"):
        read_cluster_file(str(tmp_path))


def test_a_directory_that_is_not_this_clusters_is_refused(tmp_path: Path) -> None:
    write_cluster_file(str(tmp_path), SAVED)
    assert check_data(str(tmp_path), ClusterFlags(brokers=3)) == SAVED
    for flags in (ClusterFlags(brokers=1), ClusterFlags(brokers=2, zookeeper_servers=3)):
        with pytest.raises(Failure) as failed:
            check_data(str(tmp_path), flags)
        assert failed.value.exit_code is ExitCode.USAGE
    (tmp_path / "meta.properties").touch()
    with pytest.raises(Failure) as failed:
        check_data(str(tmp_path), ClusterFlags(brokers=3))
    assert "ottla cluster promote" in (failed.value.advice or "")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--brokers", "3", "--set", "node.id=4"), "node.id is set"),
        (("--brokers", "3", "--set", "listeners=PLAINTEXT://h:1"), "listeners is set"),
        (("--brokers", "3", "--host", "0.0.0.0"), "every address"),
        (("--no-restart",), "--no-restart is for a cluster"),
        (("--zookeeper-servers", "1"), "--zookeeper-servers is for a cluster"),
    ],
)
def test_contradictions_are_refused_before_anything_is_created(
    tmp_path: Path, options: tuple[str, ...], why: str
) -> None:
    ran = ottla("up", "--data", str(tmp_path / "d"), "--detach", *options)
    assert ran.exit_code == 2
    assert why in ran.stderr
    assert not (tmp_path / "d").exists()


def test_without_java_nothing_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    ran = ottla("up", "--data", str(tmp_path / "d"), "--detach", "--brokers", "3")
    assert ran.exit_code == 4
    assert "Java is not installed" in ran.stderr
    assert not (tmp_path / "d").exists()


def test_processes_count_up_ids_ports_and_directories() -> None:
    flags = BrokerFlags(
        data="/d",
        zookeeper="z:1/c",
        sets=("node.id=4", "listeners=A://h:100,B://h:200", "advertised.listeners=A://x:300"),
    )
    flags_of_map = BrokerFlags(
        data=flags.data,
        zookeeper=flags.zookeeper,
        sets=(*flags.sets, "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT"),
    )
    members = member_flags(flags_of_map, load_settings(flags_of_map, {}), 2)
    assert list(members) == [4, 5]
    assert members[5].data == "/d/broker-5"
    assert members[5].metrics_port == 9645
    settings = load_settings(members[5], {})
    found = {name: value for name, _, value in (each.partition("=") for each in members[5].sets)}
    assert found["listeners"] == "A://h:101,B://h:201"
    assert found["advertised.listeners"] == "A://x:301"
    assert found["node.id"] == "5"
    assert settings is not None


def test_processes_whose_ports_overlap_are_refused() -> None:
    flags = BrokerFlags(zookeeper="z:1", port=9643)
    with pytest.raises(Failure, match="two brokers would listen on port 9644"):
        member_flags(flags, load_settings(flags, {}), 2)
