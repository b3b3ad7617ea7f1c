"""`ottla serve --zookeeper` that cannot start: what it says, and that the disk is as it was."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.cluster.zookeeper_servers import ZooKeeperServers
from ottla.cli.shared.failure import ExitCode
from tests.support.broker_process import BrokerProcess
from tests.support.cli.run_command import contents
from tests.support.free_port import free_port
from tests.support.zookeeper import new_chroot, running_servers

WAIT_S = 120
NO_RESERVE = {"ottla.disk.reserve.bytes": "0"}


def broker(data: Path, connect: str | None, **settings: str) -> BrokerProcess:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    options = () if connect is None else ("--zookeeper", connect)
    return BrokerProcess(data, {**NO_RESERVE, **given}, options)


def refused(data: Path, *options: str) -> tuple[ExitCode, list[str]]:
    """The exit code and the lines of the error. The data is as it was."""
    before = contents(data) if data.exists() else None
    command = [sys.executable, "-m", "ottla.cli", "serve", "--data", str(data)]
    ran = subprocess.run(
        [*command, "--port", "0", "--metrics-port", "0", *options],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert ran.stdout == ""
    assert (contents(data) if data.exists() else None) == before
    lines = ran.stderr.splitlines()
    error = next(index for index, line in enumerate(lines) if line.startswith("error: "))
    return ExitCode(ran.returncode), lines[error:]


def test_servers_that_are_not_there(tmp_path: Path) -> None:
    port = free_port()
    code, lines = refused(
        tmp_path / "data",
        *("--zookeeper", f"127.0.0.1:{port}", "--set", "zookeeper.connection.timeout.ms=500"),
    )
    assert code is ExitCode.UNREACHABLE
    assert lines[0] == f"error: no ZooKeeper server at 127.0.0.1:{port} has answered within 0.5 s"
    assert "Connection refused" in lines[1]
    assert lines[2].startswith("  try: start ZooKeeper")


@pytest.mark.parametrize("text", ["127.0.0.1:0", "a b", "a:1/c//d"])
def test_a_connect_string_that_is_none(tmp_path: Path, text: str) -> None:
    code, lines = refused(tmp_path / "data", "--zookeeper", text)
    assert code is ExitCode.USAGE
    assert "host:port[,host:port…][/chroot]" in lines[0]


def test_the_option_and_its_setting_together(tmp_path: Path) -> None:
    code, lines = refused(tmp_path / "data", "--zookeeper", "a:1", "--set", "zookeeper.connect=b:1")
    assert code is ExitCode.USAGE
    assert "--zookeeper" in lines[0]


def test_data_of_a_broker_that_was_alone(tmp_path: Path, connect: str) -> None:
    data = tmp_path / "data"
    with broker(data, None) as alone:
        alone.stop()
    code, lines = refused(data, "--zookeeper", connect)
    assert code is ExitCode.FAILED
    assert lines[0] == f"error: {data} has the metadata of a broker that was alone"
    assert "`ottla cluster promote`" in lines[-1]


def test_data_of_a_cluster_without_zookeeper(tmp_path: Path, connect: str) -> None:
    data = tmp_path / "data"
    with broker(data, connect) as member:
        member.stop()
    code, lines = refused(data)
    assert code is ExitCode.FAILED
    assert lines[0] == (
        f"error: {data} is of a broker in a cluster, whose metadata is in ZooKeeper"
    )
    assert "--zookeeper" in lines[-1]


def test_data_of_another_cluster(tmp_path: Path, connect: str, ensemble: ZooKeeperServers) -> None:
    data, other = tmp_path / "data", tmp_path / "other"
    with broker(data, connect) as member:
        member.stop()
    elsewhere = ensemble.connect_string + new_chroot()
    code, lines = refused(data, "--zookeeper", elsewhere)
    assert code is ExitCode.FAILED
    assert lines[0].endswith(f"and ZooKeeper at {elsewhere} has no cluster")
    with broker(other, elsewhere) as another:
        another.stop()
    code, lines = refused(data, "--zookeeper", elsewhere)
    assert f"error: {data} is of cluster " in lines[0]
    assert f"and ZooKeeper at {elsewhere} has cluster " in lines[0]
    assert "chroot" in lines[-1]


def test_two_brokers_with_one_id(tmp_path: Path, connect: str) -> None:
    with broker(tmp_path / "one", connect, node_id="7") as first:
        code, lines = refused(tmp_path / "two", "--zookeeper", connect, "--set", "node.id=7")
        assert code is ExitCode.FAILED
        assert lines[0] == "error: broker id 7 is in use: a broker on 127.0.0.1 is registered"
        assert "--set node.id=N" in lines[-1]
        assert not (tmp_path / "two").exists()
        first.stop()
    # One that served before, too.
    with broker(tmp_path / "two", connect, node_id="8") as second:
        second.stop()
        shutil.copytree(tmp_path / "two", tmp_path / "copy")
        with broker(tmp_path / "two", connect, node_id="8"):
            code, lines = refused(tmp_path / "copy", "--zookeeper", connect, "--set", "node.id=8")
            assert "broker id 8 is in use" in lines[0]


def test_a_broker_that_was_killed_starts_again_while_its_session_lasts(
    tmp_path: Path, connect: str
) -> None:
    """Its own registration is no obstacle. The next controller is elected without its session."""
    settings = {"zookeeper_session_timeout_ms": "6000"}
    with broker(tmp_path / "data", connect, **settings) as first:
        first.kill()
        with broker(tmp_path / "data", connect, **settings) as second:
            second.stop()


def test_a_zookeeper_that_was_restored_from_a_backup(tmp_path: Path) -> None:
    data = tmp_path / "data"
    servers_data, backup = tmp_path / "servers", tmp_path / "backup"
    with running_servers(servers_data, 1) as servers:
        connect = f"{servers.connect_string}/ottla"
        with broker(data, connect) as first:
            first.stop()
        servers.stop()
        shutil.copytree(servers_data, backup)
        servers.start()
        with broker(data, connect) as second:
            admin = AdminClient({"bootstrap.servers": second.bootstrap_servers})
            admin.create_topics([NewTopic("later", 1, 1)])["later"].result(WAIT_S)
            until_applied(data)
            second.stop()
        servers.stop()
        shutil.rmtree(servers_data)
        shutil.copytree(backup, servers_data)
        servers.start()
        code, lines = refused(data, "--zookeeper", connect)
    assert code is ExitCode.FAILED
    assert "restored from a backup" in lines[1]


def until_applied(data: Path) -> None:
    """Until the broker has saved that it knows more than the entries of its own start."""
    saved = data / "metadata-applied-offset"
    deadline = time.monotonic() + WAIT_S
    seen = int(saved.read_text()) if saved.exists() else -1
    while not saved.exists() or int(saved.read_text()) <= seen:
        assert time.monotonic() < deadline
        time.sleep(0.1)
