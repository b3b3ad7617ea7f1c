"""The metadata ensemble as a cluster's brokers reach it: over the network, with sessions.

A session lives as long as its broker is heard. A broker that is dead, paused or cut off for longer
than the session timeout loses its registration and its office as the controller.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence

from ottla.broker.node.context import Seams
from ottla.metadata.records import Record
from ottla.metadata.store import (
    Entry,
    Fence,
    Lease,
    Loaded,
    MetadataStore,
    RegisteredBroker,
    Registration,
    Snapshot,
    StoreClosed,
)
from ottla.seams.files import Files
from tests.sim.metadata_store import SimEnsemble, SimMetadataStore
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.net import SimNetwork
from tests.sim.seams.owner import OWNER

HOST = "ensemble"
SESSION_TIMEOUT_S = 4.0
HEARTBEAT_S = 1.0
RETRY_S = 0.1
LATENCY_US_MAX = 20_000


class Ensemble:
    """The servers, which are one host of the network and never fail."""

    def __init__(self, network: SimNetwork, entropy: SimEntropy) -> None:
        self.servers = SimEnsemble()
        self._network = network
        self._entropy = entropy
        self._sessions: list[SessionStore] = []

    def stores(self, host: str) -> "SessionStoreFactory":
        """Opens the stores of the broker on this host."""
        return SessionStoreFactory(self, host)

    def connect(self, host: str) -> "SessionStore":
        entropy = self._entropy.fork(f"session-{len(self._sessions)}")
        session = SessionStore(self, host, self.servers.connect(), entropy)
        self._sessions.append(session)
        return session

    def is_reached_from(self, host: str) -> bool:
        return not (self._network.is_blocked(host, HOST) or self._network.is_blocked(HOST, host))

    async def run(self) -> None:
        """Ends the sessions of brokers that are not heard."""
        while True:
            await asyncio.sleep(HEARTBEAT_S / 4)
            now_s = asyncio.get_running_loop().time()
            for session in self._sessions:
                if not session.is_expired and now_s - session.heard_s > SESSION_TIMEOUT_S:
                    session.is_expired = True
                    self.servers.expire(session.store)


class SessionStoreFactory:
    """Opens a session per life of a broker."""

    def __init__(self, ensemble: Ensemble, host: str) -> None:
        self._ensemble = ensemble
        self._host = host

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        return log_dirs[0]

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        store = self._ensemble.connect(self._host)
        store.begin()
        return store


class SessionStore:
    """One broker's `MetadataStore`. Its calls wait while the broker is cut off."""

    def __init__(
        self, ensemble: Ensemble, host: str, store: SimMetadataStore, entropy: SimEntropy
    ) -> None:
        self.store = store
        self.heard_s = asyncio.get_running_loop().time()
        self.is_expired = False
        self._ensemble = ensemble
        self._host = host
        self._entropy = entropy
        self._heartbeats: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Sends heartbeats, as a task of the broker: they stop when it does."""
        loop = asyncio.get_running_loop()
        self._heartbeats = loop.create_task(self._beat(), name="session heartbeats")

    async def load(self) -> Loaded:
        await self._reach()
        return await self.store.load()

    async def append(self, records: Sequence[Record], fence: Fence) -> int:
        await self._reach()
        offset = await self.store.append(records, fence)
        # An answer that is lost says nothing: the store waits until it knows the outcome.
        await self._reach()
        return offset

    async def save(self, snapshot: Snapshot, fence: Fence) -> None:
        await self._reach()
        await self.store.save(snapshot, fence)

    async def follow(self, from_offset: int) -> AsyncIterator[Entry]:
        async for entry in self.store.follow(from_offset):
            await self._reach()
            yield entry

    async def register(self, registration: Registration) -> int:
        await self._reach()
        self.is_expired = False
        return await self.store.register(registration)

    async def registered_brokers(self) -> AsyncIterator[tuple[RegisteredBroker, ...]]:
        async for brokers in self.store.registered_brokers():
            await self._reach()
            yield brokers

    async def campaign(self) -> Fence:
        await self._reach()
        fence = await self.store.campaign()
        self.is_expired = False
        return fence

    def session(self) -> Lease:
        return self.store.session()

    def log_directory_failed(self, path: str, error: Exception) -> None:
        self.store.log_directory_failed(path, error)

    async def close(self) -> None:
        if self._heartbeats is not None:
            self._heartbeats.cancel()
        if not _is_dead():
            await self.store.close()

    async def _beat(self) -> None:
        while True:
            if self._ensemble.is_reached_from(self._host):
                self.heard_s = asyncio.get_running_loop().time()
            await asyncio.sleep(HEARTBEAT_S)

    async def _reach(self) -> None:
        await asyncio.sleep(self._entropy.between(0, LATENCY_US_MAX) / 1e6)
        while not self._ensemble.is_reached_from(self._host):
            await asyncio.sleep(RETRY_S)
        if _is_dead():
            raise StoreClosed("the process is dead")


def _is_dead() -> bool:
    owner = OWNER.get()
    return owner is not None and owner.is_dead
