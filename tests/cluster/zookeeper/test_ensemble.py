"""A store while the servers of its ensemble are killed, and servers as processes."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from ottla.cli.cluster import zookeeper_jars
from ottla.cli.cluster.zookeeper_jars import find_zookeeper
from ottla.cli.cluster.zookeeper_servers import HOST, LOG_NAME, ZooKeeperServers
from ottla.cli.shared.failure import ExitCode, Failure
from ottla.metadata.records import Config, Record
from ottla.metadata.store import Fence, MetadataStore
from ottla.metadata.values import ResourceKind
from tests.support.metadata.sample_records import registration
from tests.support.zookeeper import Clients, access_to, running_servers, soon, tell, until


def record(number: int) -> Record:
    return Config(ResourceKind.BROKER, "", f"key-{number}", "value")


class Appending:
    """Appends numbered records, one after another, until it is stopped."""

    def __init__(self, store: MetadataStore, fence: Fence) -> None:
        self.count = 0
        self._store = store
        self._fence = fence
        self._stopping = False
        self._task = asyncio.create_task(self._run())

    async def more(self, count: int) -> None:
        wanted = self.count + count
        await until(lambda: self.count >= wanted or self._task.done())

    async def stop(self) -> None:
        self._stopping = True
        await soon(self._task)

    async def _run(self) -> None:
        while not self._stopping:
            await self._store.append([record(self.count)], self._fence)
            self.count += 1


def test_sessions_and_appends_survive_the_loss_of_zookeepers_leader(tmp_path: Path) -> None:
    with running_servers(tmp_path) as servers:

        async def story(clients: Clients) -> None:
            # Longer than it needs, for machines that are slow.
            access = access_to(f"{servers.connect_string}/a", session_timeout_ms=15_000)
            store, watching = [await clients.store(access) for _ in range(2)]
            epoch = await store.register(registration())
            appending = Appending(store, await store.campaign())
            await appending.more(20)
            for how in (signal.SIGKILL, signal.SIGSTOP):
                leader = await asyncio.to_thread(servers.leader)
                assert leader.pid is not None
                if how is signal.SIGKILL:
                    leader.kill()
                else:
                    # Hung: the others find out after syncLimit ticks.
                    os.kill(leader.pid, signal.SIGSTOP)
                await appending.more(20)
                leader.kill()
                leader.start()
                await asyncio.to_thread(servers.wait_until_ready)
            await appending.stop()
            loaded = await watching.load()
            assert [each.records for each in loaded.entries] == [
                (record(number),) for number in range(appending.count)
            ]
            # The session, and so the registration, has lasted.
            (found,) = await anext(watching.registered_brokers())
            assert found.broker_epoch == epoch
            assert "ZooKeeper session expired" not in clients.reports

        tell(story)


def test_everything_is_there_after_all_servers_were_killed(tmp_path: Path) -> None:
    with running_servers(tmp_path) as servers:

        async def story(clients: Clients) -> None:
            access = access_to(f"{servers.connect_string}/a", session_timeout_ms=60_000)
            store = await clients.store(access)
            appending = Appending(store, await store.campaign())
            await appending.more(20)
            servers.kill()
            count = appending.count
            await asyncio.sleep(1)
            assert appending.count <= count + 1
            await asyncio.to_thread(servers.start)
            await appending.more(20)
            await appending.stop()
            loaded = await store.load()
            assert [each.records for each in loaded.entries] == [
                (record(number),) for number in range(appending.count)
            ]

        tell(story)


def test_servers_listen_on_this_machine_only_and_end_with_the_block(tmp_path: Path) -> None:
    with ZooKeeperServers(tmp_path, 1) as servers:
        (server,) = servers.servers
        assert server.mode() == "standalone"
        assert server.command("ruok") == "imok"
        assert servers.connect_string == f"{HOST}:{server.port}"
        pid = server.pid
        assert pid is not None
        listening = Path(f"/proc/{pid}/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        local = [
            line.split()[1]
            for line in listening.splitlines()
            if line.split()[3] == "0A" and line.split()[1].endswith(f":{server.port:04X}")
        ]
        assert [each[:8] for each in local] in (["0100007F"], ["00000000"])
        assert all("0100007F" in each for each in local)
    assert server.pid is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    # The data is kept, and so is the log.
    assert (tmp_path / "server-1" / "data" / "version-2").is_dir()
    assert (tmp_path / "server-1" / LOG_NAME).exists()


def test_a_server_that_does_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    with (
        pytest.raises(Failure) as caught,
        ZooKeeperServers(tmp_path, 1, settings={"tickTime": "x"}),
    ):
        raise AssertionError("it has started")
    assert "ZooKeeper server 1 has ended" in caught.value.what
    assert caught.value.why is not None
    assert "tickTime" in caught.value.why or "NumberFormatException" in caught.value.why
    assert LOG_NAME in (caught.value.advice or "")


def test_the_class_path_has_what_zookeeper_needs_of_the_jars_of_spark(tmp_path: Path) -> None:
    for name in ("zookeeper-3.9.5.jar", "slf4j-api-2.0.17.jar", "spark-core_2.13-4.2.1.jar"):
        (tmp_path / name).touch()
    found = find_zookeeper(spark_jars=str(tmp_path))
    assert found.class_path == f"{tmp_path}/slf4j-api-2.0.17.jar:{tmp_path}/zookeeper-3.9.5.jar"


def test_without_java_or_jars_the_failure_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert find_zookeeper().origin == "the pyspark package"
    with pytest.raises(Failure) as caught:
        find_zookeeper(spark_jars=str(tmp_path), system_jars=str(tmp_path / "none"))
    assert caught.value.what == "ZooKeeper is not installed"
    assert "ottla[spark]" in (caught.value.advice or "")
    (tmp_path / "zookeeper.jar").touch()
    found = find_zookeeper(spark_jars=str(tmp_path / "none"), system_jars=str(tmp_path))
    assert (found.class_path, found.origin) == (
        f"{tmp_path}/*",
        "the zookeeper package of the system",
    )
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(zookeeper_jars.shutil, "which", lambda *_, **__: None)
    with pytest.raises(Failure) as caught:
        find_zookeeper()
    assert caught.value.exit_code is ExitCode.NOT_FOUND
    assert "default-jdk-headless" in (caught.value.advice or "")
