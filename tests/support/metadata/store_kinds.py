"""The kinds of metadata stores: each one opens stores, and lets their brokers crash."""

import asyncio
import shutil
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Protocol

from ottla.metadata.embedded.store import EmbeddedStore
from ottla.metadata.memory import MemoryEnsemble, MemoryStore
from ottla.metadata.store import MetadataStore
from ottla.metadata.zookeeper.store import ZooKeeperStore
from ottla.seams.clock import RealClock
from ottla.seams.files import RealFiles
from tests.sim.ensemble.client import SimZnodes
from tests.sim.ensemble.servers import SimEnsemble
from tests.sim.seams.clock import SimClock
from tests.sim.seams.disk import SimDisk
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.loop import run
from tests.sim.seams.threads import SimThreads

DATA = "/data"


class StorePlace(Protocol):
    """Where the stores of a test are."""

    def run(self, steps: Coroutine[Any, Any, None]) -> None:
        """Runs the steps of a test."""
        ...

    async def quiet(self, seconds: float) -> None:
        """Time in which nothing should happen."""
        ...

    def open(self) -> MetadataStore:
        """Opens a store for a starting broker."""
        ...

    def crash(self) -> None:
        """The broker crashes; the next one must find all committed entries."""
        ...


class InVirtualTime:
    """A wait for something that cannot happen fails at once."""

    def run(self, steps: Coroutine[Any, Any, None]) -> None:
        run(steps)

    async def quiet(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RealDirectory(InVirtualTime):
    """An embedded store on a real file system."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._crashes = 0
        self._directory = path / "data-0"
        self._directory.mkdir()

    def open(self) -> EmbeddedStore:
        return EmbeddedStore.open(RealFiles(), str(self._directory), RealClock())

    def crash(self) -> None:
        """A copy has what a killed process leaves: all its writes, and no lock."""
        self._crashes += 1
        copy = self._path / f"data-{self._crashes}"
        shutil.copytree(self._directory, copy)
        self._directory = copy


class SimMachine(InVirtualTime):
    """An embedded store on a simulated disk; a crash is a power loss."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.clock = SimClock()
        self.disk = SimDisk(seed, clock=self.clock)
        self.files = self.disk.process()
        self.files.make_dir(DATA)
        self.files.sync_dir("/")

    def open(self) -> EmbeddedStore:
        self.files = self.disk.process()
        return EmbeddedStore.open(self.files, DATA, self.clock)

    def crash(self) -> None:
        self.disk.power_loss()


class ThreadedMachine(SimMachine):
    """The same with threads that wait for the disk."""

    def open(self) -> EmbeddedStore:
        self.files = self.disk.process()
        self.threads = SimThreads(SimEntropy(self.seed))
        return EmbeddedStore.open(self.files, DATA, self.clock, self.threads)

    def crash(self) -> None:
        self.threads.crash()
        super().crash()


class Memory(InVirtualTime):
    """Metadata in memory; a crash ends the sessions of the brokers."""

    def __init__(self) -> None:
        self.ensemble = MemoryEnsemble()
        self._stores: list[MemoryStore] = []

    def open(self) -> MemoryStore:
        store = self.ensemble.connect()
        self._stores.append(store)
        return store

    def crash(self) -> None:
        while self._stores:
            self.ensemble.expire(self._stores.pop())


class SimulatedZooKeeper(InVirtualTime):
    """The store in ZooKeeper, on simulated servers; a crash ends the sessions of the brokers."""

    def __init__(self, seed: int = 0) -> None:
        self.ensemble = SimEnsemble(seed)
        self._clients: list[SimZnodes] = []

    def open(self) -> ZooKeeperStore:
        client = self.ensemble.client()
        self._clients.append(client)
        return ZooKeeperStore(client)

    def crash(self) -> None:
        while self._clients:
            self.ensemble.expire(self._clients.pop())
