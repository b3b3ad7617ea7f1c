"""Real ZooKeeper servers, clients of them, and what happens to their sessions."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from ottla.broker.event_log import Logger
from ottla.broker.node.context import Seams
from ottla.broker.node.zookeeper_store import ZooKeeperStoreFactory
from ottla.cli.cluster.zookeeper_servers import ZooKeeperServers
from ottla.metadata.zookeeper.access import ZooKeeperAccess
from ottla.metadata.zookeeper.kazoo_client import KazooZnodes
from ottla.metadata.zookeeper.store import ZooKeeperStore
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import RealFiles
from ottla.seams.net import RealNet
from ottla.seams.threads import RealThreads
from ottla.seams.workers import RealWorkers
from ottla.settings.sources import load
from ottla.settings.zookeeper_connect import ZooKeeperConnect
from tests.support.free_port import free_port

# Nothing is expected within a time; a wait for something that never comes ends with this one.
WAIT_S = 90.0
SESSION_TIMEOUT_MS = 6_000
# The disk of a test machine may be slow, and no test ends its power.
UNSYNCED = {"zookeeper.forceSync": "no"}

_CHROOTS = itertools.count(1)


@contextmanager
def running_servers(
    directory: Path,
    count: int = 3,
    *,
    properties: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> Iterator[ZooKeeperServers]:
    """Servers on ports that they have again after a restart."""
    ports = [free_port() for _ in range(3 * count)]
    servers = ZooKeeperServers(
        directory,
        count,
        ports=ports,
        properties={**UNSYNCED, **(properties or {})},
        settings=settings,
    )
    try:
        servers.start()
        yield servers
    finally:
        servers.kill()


def new_chroot() -> str:
    """Another one each time: tests share servers."""
    return f"/test-{next(_CHROOTS)}"


def access_to(
    connect: str,
    *,
    session_timeout_ms: int = SESSION_TIMEOUT_MS,
    connection_timeout_ms: int = int(WAIT_S * 1000),
    **options: Any,
) -> ZooKeeperAccess:
    return ZooKeeperAccess(
        connect=ZooKeeperConnect().parse(connect),
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=connection_timeout_ms,
        **options,
    )


class Clients:
    """Opens clients and stores, and closes them all."""

    def __init__(self) -> None:
        self._threads = RealThreads(16)
        self._opened: list[KazooZnodes] = []
        self.reports: list[str] = []

    async def client(self, access: ZooKeeperAccess) -> KazooZnodes:
        client = await KazooZnodes.connect(
            access, self._threads, lambda event, _: self.reports.append(event)
        )
        self._opened.append(client)
        return client

    def begin_client(self, access: ZooKeeperAccess) -> KazooZnodes:
        """Without waiting for a connection: the first call does. The chroot must exist."""
        client = KazooZnodes(access, self._threads)
        client.start()
        self._opened.append(client)
        return client

    async def store(self, access: ZooKeeperAccess) -> ZooKeeperStore:
        return ZooKeeperStore(await self.client(access))

    async def close(self) -> None:
        await asyncio.gather(*(client.close() for client in self._opened))
        self._threads.close()


@asynccontextmanager
async def clients() -> AsyncIterator[Clients]:
    opened = Clients()
    try:
        yield opened
    finally:
        await opened.close()


def tell(story: Callable[[Clients], Awaitable[None]]) -> None:
    """Runs a story on a real loop, and closes all its clients."""

    async def run() -> None:
        async with asyncio.timeout(2 * WAIT_S), clients() as opened:
            await story(opened)

    asyncio.run(run())


async def soon(call: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(call, WAIT_S)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not is_so():
            await asyncio.sleep(0.01)


def end_session(client: KazooZnodes, connect: str) -> None:
    """The servers end the session of this client, which finds out later.

    Another client takes over the session, and closes it. Blocks; kazoo's thread goes on meanwhile.
    """
    deadline = time.monotonic() + WAIT_S
    while (identity := client._client.client_id) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    other = KazooClient(connect.partition("/")[0], client_id=identity)
    other.start(WAIT_S)
    other.stop()
    other.close()


def seams() -> Seams:
    return Seams(RealClock(), RealEntropy(), RealFiles(), RealNet(), RealThreads(), RealWorkers())


class Silence:
    """A logger that keeps the names of events."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def _note(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self.events.append(event)

    debug = info = warning = error = _note


def store_factory(logger: Logger | None = None, **settings: str) -> ZooKeeperStoreFactory:
    """Settings with underscores for dots."""
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return ZooKeeperStoreFactory(load(given=given, environment={}, file=None), logger or Silence())
