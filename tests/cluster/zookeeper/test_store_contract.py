"""The contract of metadata stores, against real servers: the tests of every other store."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from ottla.metadata.store import MetadataStore
from ottla.metadata.zookeeper.kazoo_client import KazooZnodes
from ottla.metadata.zookeeper.store import ZooKeeperStore
from tests.support.zookeeper import Clients, access_to, end_session, tell
from tests.unit.metadata import test_shared_stores, test_store

# Long enough for a change that should not happen to be seen on most machines.
QUIET_S_MAX = 0.3

for _tests in (test_store, test_shared_stores):
    globals().update({name: each for name, each in vars(_tests).items() if "test_" in name})


class RealZooKeeper:
    """Stores of one cluster. A crash ends the sessions of all its clients."""

    def __init__(self, connect: str) -> None:
        self._connect = connect
        self._clients: Clients | None = None
        self._opened: dict[int, KazooZnodes] = {}

    def run(self, steps: Coroutine[Any, Any, None]) -> None:
        async def story() -> None:
            await steps

        self.run_story(story)

    def run_story(self, steps: Callable[[], Awaitable[None]]) -> None:
        async def story(clients: Clients) -> None:
            # Makes the chroot, so that the others need not wait for it.
            await clients.client(access_to(self._connect))
            self._clients = clients
            await steps()

        tell(story)

    async def quiet(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, QUIET_S_MAX))

    def open(self) -> MetadataStore:
        assert self._clients is not None
        client = self._clients.begin_client(access_to(self._connect))
        store = ZooKeeperStore(client)
        self._opened[id(store)] = client
        return store

    def connect(self) -> MetadataStore:
        return self.open()

    def crash(self) -> None:
        opened, self._opened = self._opened, {}
        for client in opened.values():
            end_session(client, self._connect)

    def expire(self, store: MetadataStore) -> None:
        end_session(self._opened[id(store)], self._connect)


class RealClusters:
    """In place of a class of clusters."""

    def __init__(self, connect: str) -> None:
        self._connect = connect

    def run(self, steps: test_shared_stores.Steps) -> None:
        cluster = RealZooKeeper(self._connect)
        cluster.run_story(lambda: steps(cluster))


@pytest.fixture
def place(connect: str) -> RealZooKeeper:
    return RealZooKeeper(connect)


@pytest.fixture
def kind(connect: str) -> RealClusters:
    return RealClusters(connect)
