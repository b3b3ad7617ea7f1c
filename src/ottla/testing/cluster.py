"""Several brokers in one thread of the test process, with their metadata in memory."""

import asyncio
import concurrent.futures
import shutil
import tempfile
import threading
from collections.abc import Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import uvloop

from ottla.address import Address
from ottla.broker.event_log import Level, NodeLogger
from ottla.broker.node.context import Seams
from ottla.broker.node.node import Node
from ottla.metadata.memory import MemoryEnsemble
from ottla.metadata.store import MetadataStore
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import Files, RealFiles
from ottla.seams.net import RealNet
from ottla.seams.threads import RealThreads
from ottla.seams.workers import RealWorkers
from ottla.settings.sources import load
from ottla.testing.broker import DEFAULTS, START_TIMEOUT_S, error_stream

T = TypeVar("T")

STOP_TIMEOUT_S = 60.0


class _SharedStores:
    """Opens the store of one broker, in the memory that all of them share."""

    is_shared = True

    def __init__(self, ensemble: MemoryEnsemble) -> None:
        self._ensemble = ensemble

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        del files
        return log_dirs[0]

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        del seams, home
        return self._ensemble.connect()


class Cluster:
    """Brokers 1 to `brokers`, from `start` to `close`, or inside a `with` block.

    `settings` are settings of all brokers under Kafka's names. `racks` are those of brokers 1, 2
    and so on. The records are in a temporary directory, the metadata in memory: both are gone after
    `close`. Each broker keeps its port when it is started again.
    """

    def __init__(
        self,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        racks: Sequence[str] = (),
    ) -> None:
        factor = str(min(brokers, 3))
        internal = {
            "offsets.topic.replication.factor": factor,
            "transaction.state.log.replication.factor": factor,
        }
        self._settings = DEFAULTS | internal | dict(settings or {})
        self._first_ids = range(1, brokers + 1)
        self._racks = racks
        self._directory = tempfile.mkdtemp(prefix="ottla-cluster-")
        self._ensemble: MemoryEnsemble | None = None
        self._nodes: dict[int, Node] = {}
        self._addresses: dict[int, Address] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers that run, for clients."""
        running = [str(self._addresses[broker_id]) for broker_id in self.broker_ids]
        if not running:
            raise RuntimeError("no broker is running")
        return ",".join(running)

    @property
    def broker_ids(self) -> list[int]:
        """The brokers that run."""
        return sorted(self._nodes)

    def start(self) -> None:
        """Returns once all brokers serve. Raises the error of a failed start."""
        if self._thread is not None:
            raise RuntimeError("the cluster is already running")
        started = threading.Event()
        self._thread = threading.Thread(
            target=self._run_loop, args=(started,), name="ottla-cluster", daemon=True
        )
        self._thread.start()
        started.wait(START_TIMEOUT_S)
        self._ensemble = self._run(_make_ensemble(), START_TIMEOUT_S)
        try:
            for broker_id in self._first_ids:
                self.add(broker_id)
        except BaseException:
            self.close()
            raise

    def add(self, broker_id: int) -> None:
        """Starts a broker with this id: a new one, or one that was stopped or killed."""
        if broker_id in self._nodes:
            raise RuntimeError(f"broker {broker_id} is already running")
        self._run(self._start(broker_id), START_TIMEOUT_S)

    def restart(self, broker_id: int) -> None:
        """Stops a broker if it runs, and starts it again with its data."""
        if broker_id in self._nodes:
            self.stop(broker_id)
        self.add(broker_id)

    def stop(self, broker_id: int) -> None:
        """Stops a broker cleanly: it hands over its leaderships first."""
        self._end(broker_id, hands_over=True)

    def kill(self, broker_id: int) -> None:
        """Ends a broker without a word to the others. The cluster notices at once."""
        self._end(broker_id, hands_over=False)

    def close(self) -> None:
        """Stops all brokers, and removes their data. Raises an error that ended one before."""
        faults = []
        try:
            for broker_id in reversed(self.broker_ids):
                fault = self._nodes[broker_id].fault
                faults += [fault.result()] if fault.done() else []
                self.stop(broker_id)
        finally:
            self._end_loop()
            shutil.rmtree(self._directory, ignore_errors=True)
        if faults:
            raise faults[0]

    # In the thread of the test

    def _end(self, broker_id: int, *, hands_over: bool) -> None:
        if broker_id not in self._nodes:
            raise RuntimeError(f"broker {broker_id} is not running")
        node = self._nodes.pop(broker_id)
        self._run(node.stop(hands_over=hands_over), STOP_TIMEOUT_S)

    def _run(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """Runs a coroutine in the brokers' thread."""
        if self._loop is None:
            work.close()
            raise RuntimeError("the cluster is not running")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(timeout_s)
        except concurrent.futures.TimeoutError:
            future.cancel()
            raise TimeoutError(f"the cluster did not answer in {timeout_s} s") from None

    def _end_loop(self) -> None:
        if self._loop is not None and self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop = self._thread = None

    # In the thread of the brokers

    def _run_loop(self, started: threading.Event) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            self._loop = loop = runner.get_loop()
            self._threads = RealThreads()
            loop.call_soon(started.set)
            try:
                loop.run_forever()
            finally:
                self._threads.close()

    async def _start(self, broker_id: int) -> None:
        if self._ensemble is None:
            raise RuntimeError("the cluster is not running")
        node = Node(
            load(given=self._settings_of(broker_id), environment={}, file=None),
            Seams(RealClock(), RealEntropy(), RealFiles(), RealNet(), self._threads, RealWorkers()),
            NodeLogger(error_stream(), RealClock(), broker_id, level=Level.ERROR),
            stores=_SharedStores(self._ensemble),
        )
        endpoints = await node.start()
        self._nodes[broker_id] = node
        self._addresses[broker_id] = endpoints.kafka

    def _settings_of(self, broker_id: int) -> dict[str, str]:
        own = {"node.id": str(broker_id), "log.dirs": f"{self._directory}/{broker_id}"}
        if broker_id in self._addresses:
            own["listeners"] = f"PLAINTEXT://{self._addresses[broker_id]}"
        if 0 < broker_id <= len(self._racks):
            own["broker.rack"] = self._racks[broker_id - 1]
        return self._settings | own


async def _make_ensemble() -> MemoryEnsemble:
    """In the brokers' loop, whose events it has."""
    return MemoryEnsemble()
