"""The contract of `Znodes` on kazoo with real servers: connections, sessions, watches, limits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kazoo.handlers.threading import SequentialThreadingHandler

from ottla.cli.cluster.zookeeper_servers import ZooKeeperServers
from ottla.errors import StorageError, StoreUnusable
from ottla.metadata.store import StoreClosed
from ottla.metadata.zookeeper.kazoo_client import REQUEST_BYTES_MAX, KazooZnodes
from ottla.metadata.zookeeper.kazoo_connection import _WakeUp
from ottla.metadata.zookeeper.znodes import (
    ANY_VERSION,
    NO_SESSION,
    Check,
    ConnectionLost,
    Create,
    Delete,
    Operation,
    Refused,
    SetData,
    patient,
)
from tests.support.cutting_proxy import CuttingProxy
from tests.support.zookeeper import (
    Clients,
    access_to,
    end_session,
    new_chroot,
    session_of,
    soon,
    tell,
    until,
)

# The shortest that the servers grant.
SHORT_SESSION_MS = 1_000
LONG_SESSION_MS = 120_000


@asynccontextmanager
async def proxied(
    clients: Clients, ensemble: ZooKeeperServers, session_timeout_ms: int = LONG_SESSION_MS
) -> AsyncIterator[tuple[KazooZnodes, CuttingProxy, KazooZnodes]]:
    """A client behind a proxy, the proxy, and a client of the same nodes without one."""
    chroot = new_chroot()
    with CuttingProxy([server.port for server in ensemble.servers]) as proxy:
        client = await clients.client(
            access_to(proxy.connect_string + chroot, session_timeout_ms=session_timeout_ms)
        )
        direct = await clients.client(access_to(ensemble.connect_string + chroot))
        try:
            yield client, proxy, direct
        finally:
            proxy.heal()
            await clients.close()


def test_nodes_are_created_read_changed_and_deleted(connect: str) -> None:
    async def story(clients: Clients) -> None:
        client = await clients.client(access_to(connect))
        assert await client.get("/a") is None
        await client.multi([Create("/a", b"1"), Create("/a/b", b"", is_ephemeral=True)])
        found, child = await client.get("/a"), await client.get("/a/b")
        assert found is not None
        assert child is not None
        assert (found.data, found.version, found.owner) == (b"1", 0, NO_SESSION)
        assert (child.data, child.owner, child.czxid) == (b"", client.session_id, found.czxid)
        assert await client.children("/a") == ("b",)
        await client.multi([SetData("/a", b"2", 0), Check("/a", 1), Delete("/a/b", 0)])
        changed = await client.get("/a")
        assert changed == found._replace(data=b"2", version=1)
        assert await client.children("/a") == ()
        with pytest.raises(StorageError, match=r"/none in ZooKeeper at .* does not exist"):
            await client.children("/none")

    tell(story)


@pytest.mark.parametrize(
    ("operations", "index"),
    [
        ([Check("/a", 5), Create("/b", b"")], 0),
        ([Create("/b", b""), Check("/a", 5), Create("/c", b"")], 1),
        ([Create("/b", b""), Create("/c", b""), Create("/a", b"")], 2),
        ([SetData("/a", b"", 0), SetData("/a", b"", 0)], 1),
        ([Delete("/none", ANY_VERSION)], 0),
        ([Check("/a", 0), SetData("/none", b"", ANY_VERSION)], 1),
    ],
)
def test_a_refused_multi_names_the_operation_and_changes_nothing(
    connect: str, operations: list[Operation], index: int
) -> None:
    async def story(clients: Clients) -> None:
        client = await clients.client(access_to(connect))
        await client.multi([Create("/a", b"")])
        before = await client.get("/a")
        with pytest.raises(Refused) as caught:
            await client.multi(operations)
        assert caught.value.index == index
        assert await client.get("/a") == before
        assert await client.get("/b") is None

    tell(story)


def test_a_failure_that_no_retry_mends_is_no_refusal(connect: str) -> None:
    async def story(clients: Clients) -> None:
        client = await clients.client(access_to(connect))
        with pytest.raises(StorageError, match=r"the parent of /test-\d+/a/b .* was deleted"):
            await client.multi([Create("/a/b", b"")])
        await client.multi([Create("/a", b""), Create("/a/b", b"")])
        with pytest.raises(StorageError, match="NotEmptyError"):
            await client.multi([Delete("/a", ANY_VERSION)])
        await client.multi([Create("/e", b"", is_ephemeral=True)])
        with pytest.raises(StorageError, match="NoChildrenForEphemeralsError"):
            await client.multi([Create("/e/f", b"")])

    tell(story)


def test_a_request_above_the_servers_limit_is_never_sent(connect: str) -> None:
    async def story(clients: Clients) -> None:
        client = await clients.client(access_to(connect))
        session_id = client.session_id
        limit = REQUEST_BYTES_MAX - 1_000
        await client.multi([Create("/a", b"x" * limit)])
        found = await client.get("/a")
        assert found is not None
        assert len(found.data) == limit
        large: list[list[Operation]] = [
            [Create("/b", b"x" * REQUEST_BYTES_MAX)],
            [Create("/b", b"x" * (limit // 2)), SetData("/a", b"x" * (limit // 2 + 2_000), 0)],
        ]
        for operations in large:
            with pytest.raises(StorageError, match="accepts at most 1048575"):
                await client.multi(operations)
        assert await client.get("/b") is None
        assert clients.reports == ["ZooKeeper session"]
        assert client.session_id == session_id

    tell(story)


# Watches


def test_a_watch_is_set_by_creation_change_deletion_and_children(connect: str) -> None:
    async def story(clients: Clients) -> None:
        watching, other = [await clients.client(access_to(connect)) for _ in range(2)]
        changes: list[Operation] = [
            Create("/a", b""),
            SetData("/a", b"1", ANY_VERSION),
            Delete("/a", ANY_VERSION),
            Create("/a", b"2"),
        ]
        for change in changes:
            changed = asyncio.Event()
            await watching.sync()
            await watching.get("/a", changed)
            await asyncio.sleep(0)
            assert not changed.is_set()
            await other.multi([change])
            await soon(changed.wait())
        for change in (Create("/a/b", b""), Delete("/a/b", ANY_VERSION)):
            changed = asyncio.Event()
            await watching.sync()
            await watching.children("/a", changed)
            assert not changed.is_set()
            await other.multi([change])
            await soon(changed.wait())

    tell(story)


def test_an_event_is_kept_once_per_node(connect: str) -> None:
    async def story(clients: Clients) -> None:
        client: Any = await clients.client(access_to(connect))
        await client.multi([Create("/a", b""), Create("/b", b"")])
        event = asyncio.Event()
        for _ in range(50):
            await client.get("/a", event)
            await client.children("/a", event)
            await client.get("/none", event)
        assert sum(map(len, client._watches.values())) == 3
        kept = client._client
        assert {len(each) for each in kept._data_watchers.values()} == {1}
        assert {len(each) for each in kept._child_watchers.values()} == {1}
        # One event can watch many nodes: each is another change.
        await client.get("/b", event)
        await client.multi([SetData("/a", b"1", 0)])
        await soon(event.wait())
        event.clear()
        await client.multi([SetData("/b", b"1", 0)])
        await soon(event.wait())

    tell(story)


def test_watches_are_set_when_the_connection_breaks(ensemble: ZooKeeperServers) -> None:
    async def story(clients: Clients) -> None:
        async with proxied(clients, ensemble) as (client, proxy, direct):
            await client.multi([Create("/a", b"")])
            events = [asyncio.Event() for _ in range(3)]
            await client.get("/a", events[0])
            await client.get("/none", events[1])
            await client.children("/a", events[2])
            session_id = client.session_id
            proxy.break_all()
            for event in events:
                await soon(event.wait())
            # What changed meanwhile is found by the next read, with a watch that works.
            await direct.multi([SetData("/a", b"1", 0)])
            changed = asyncio.Event()

            async def read() -> bytes:
                await client.sync()
                found = await client.get("/a", changed)
                assert found is not None
                return found.data

            assert await soon(patient(read)) == b"1"
            changed.clear()
            await direct.multi([SetData("/a", b"2", 1)])
            await soon(changed.wait())
            assert client.session_id == session_id

    tell(story)


# Connections and sessions


def test_a_call_without_a_connection_waits_for_one(ensemble: ZooKeeperServers) -> None:
    async def story(clients: Clients) -> None:
        async with proxied(clients, ensemble) as (client, proxy, direct):
            proxy.refuse()
            await until(lambda: "ZooKeeper connection lost" in clients.reports)
            waiting = asyncio.create_task(client.multi([Create("/a", b"")]))
            cancelled = asyncio.create_task(client.multi([Create("/b", b"")]))
            await asyncio.sleep(0.5)
            assert not waiting.done()
            # kazoo would send it later.
            cancelled.cancel()
            await asyncio.wait((cancelled,))
            proxy.heal()
            await soon(waiting)
            await direct.sync()
            assert await direct.get("/a") is not None
            assert await direct.get("/b") is None

    tell(story)


def test_a_connection_that_breaks_during_a_call_ends_the_call(ensemble: ZooKeeperServers) -> None:
    async def story(clients: Clients) -> None:
        async with proxied(clients, ensemble) as (client, proxy, _):
            proxy.hold()
            calls = [asyncio.create_task(client.get(f"/{number}")) for number in range(500)]
            await asyncio.sleep(0.1)
            assert not any(call.done() for call in calls)
            proxy.break_all()
            proxy.heal()
            results = await soon(asyncio.gather(*calls, return_exceptions=True))
            assert {type(each) for each in results} == {ConnectionLost}
            assert await soon(patient(lambda: client.get("/0"))) is None

    tell(story)


def test_only_the_servers_end_a_session_and_the_next_one_begins_by_itself(
    ensemble: ZooKeeperServers,
) -> None:
    """A silence longer than the timeout: the client keeps the session until it is told."""

    async def story(clients: Clients) -> None:
        async with proxied(clients, ensemble, SHORT_SESSION_MS) as (client, proxy, direct):
            assert client.session_timeout_ms == SHORT_SESSION_MS
            await client.multi([Create("/e", b"", is_ephemeral=True)])
            gone, watched = asyncio.Event(), asyncio.Event()
            await direct.sync()
            assert await direct.get("/e", gone) is not None
            await client.get("/e", watched)
            session_id = client.session_id
            proxy.hold()
            calling = asyncio.create_task(client.get("/e"))
            await soon(gone.wait())
            await direct.sync()
            assert await direct.get("/e") is None
            # The connection is given up, the session is not.
            await soon(watched.wait())
            assert client.session_id == session_id
            with pytest.raises(ConnectionLost):
                await soon(calling)
            proxy.heal()
            await until(lambda: client.session_id != session_id)
            assert await soon(patient(lambda: client.get("/e"))) is None
            await patient(lambda: client.multi([Create("/e", b"", is_ephemeral=True)]))
            again = await client.get("/e")
            assert again is not None
            assert again.owner == client.session_id
            assert "ZooKeeper session expired" in clients.reports

    tell(story)


def test_a_session_that_is_ended_elsewhere_sets_watches_and_ends_calls(connect: str) -> None:
    async def story(clients: Clients) -> None:
        client = await clients.client(access_to(connect, session_timeout_ms=LONG_SESSION_MS))
        await client.multi([Create("/e", b"", is_ephemeral=True)])
        for _ in range(10):
            watched = asyncio.Event()
            await patient(lambda watched=watched: client.get("/none", watched))  # type: ignore[misc]
            session_id = client.session_id
            calls = [asyncio.create_task(client.sync()) for _ in range(20)]
            end_session(client, connect)
            await soon(watched.wait())
            await soon(asyncio.gather(*calls, return_exceptions=True))
            await until(lambda session_id=session_id: client.session_id != session_id)  # type: ignore[misc]

    tell(story)


def test_a_close_ends_the_session_at_once_and_all_calls(connect: str) -> None:
    async def story(clients: Clients) -> None:
        client, other = [
            await clients.client(access_to(connect, session_timeout_ms=LONG_SESSION_MS))
            for _ in range(2)
        ]
        await client.multi([Create("/e", b"", is_ephemeral=True)])
        gone, watched = asyncio.Event(), asyncio.Event()
        await other.sync()
        assert await other.get("/e", gone) is not None
        await client.get("/e", watched)
        calling = asyncio.create_task(client.sync())
        await asyncio.sleep(0)
        await asyncio.gather(client.close(), client.close())
        assert watched.is_set()
        with pytest.raises(StoreClosed):
            await calling
        await soon(gone.wait())
        for call in (client.get("/e"), client.children("/"), client.multi([]), client.sync()):
            with pytest.raises(StoreClosed):
                await call
        await client.close()

    tell(story)


@pytest.mark.parametrize("way", ["hold", "refuse"])
def test_a_client_without_servers_can_be_closed(ensemble: ZooKeeperServers, way: str) -> None:
    async def story(clients: Clients) -> None:
        async with proxied(clients, ensemble) as (client, proxy, _):
            getattr(proxy, way)()
            calling = asyncio.ensure_future(patient(client.sync))
            await asyncio.sleep(0.05)
            await soon(client.close())
            with pytest.raises(StoreClosed):
                await calling

    tell(story)


def test_a_client_whose_thread_has_failed_says_so(connect: str) -> None:
    async def story(clients: Clients) -> None:
        client: Any = await clients.client(access_to(connect))
        identity = session_of(client)

        def fail(*_: object) -> None:
            raise RuntimeError("a bug of kazoo")

        client._client._connection._read_socket = fail
        with pytest.raises(ConnectionLost):
            await soon(client.sync())
        for _ in range(2):
            with pytest.raises(StorageError, match="has failed: a bug of kazoo"):
                await soon(client.get("/a"))
        await client.close()
        end_session(client, connect, identity)

    tell(story)


def test_a_server_that_drops_packets_gets_its_share_of_the_session_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timeouts: list[float] = []

    def refuse(*_: object, timeout: float, **__: object) -> None:
        timeouts.append(timeout)
        raise OSError("no answer")

    monkeypatch.setattr(SequentialThreadingHandler, "create_connection", refuse)

    async def story(clients: Clients) -> None:
        access = access_to(
            "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
            session_timeout_ms=6_000,
            connection_timeout_ms=100,
        )
        with pytest.raises(StoreUnusable):
            await clients.client(access)

    tell(story)
    assert set(timeouts) == {2.0}


def test_a_client_can_be_woken_without_limit_and_never_blocks() -> None:
    wake_up = _WakeUp()
    count = 100_000
    for _ in range(count):
        wake_up.send(b"\0")
    assert all(wake_up.recv(1) == b"\0" for _ in range(count))
    with pytest.raises(BlockingIOError):
        wake_up.recv(1)
    wake_up.close()
    wake_up.close()
