"""A broker in its own thread: a test that blocks does not stall it."""

import asyncio
import contextlib
import shutil
import sys
import tempfile
import threading
from collections.abc import Mapping
from types import TracebackType
from typing import Self, TextIO

import uvloop

from ottla.broker.event_log import Level, NodeLogger
from ottla.broker.node.context import Seams
from ottla.broker.node.endpoints import Endpoints
from ottla.broker.node.node import Node
from ottla.seams.clock import RealClock
from ottla.seams.entropy import RealEntropy
from ottla.seams.files import RealFiles
from ottla.seams.net import RealNet
from ottla.seams.threads import RealThreads
from ottla.seams.workers import RealWorkers
from ottla.settings.development import DEVELOPMENT
from ottla.settings.sources import load

START_TIMEOUT_S = 30.0
DEFAULTS = {
    **DEVELOPMENT,
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "ottla.metrics.port": "0",
    # A test machine's disk may be nearly full.
    "ottla.disk.reserve.bytes": "0",
}


class Broker:
    """Runs from `start` to `stop`, or inside a `with` block. Can be started again.

    `settings` are broker settings under Kafka's names. Without `directory` the data is kept in a
    temporary directory, which survives restarts and is removed by `close`.
    """

    def __init__(
        self, settings: Mapping[str, str] | None = None, *, directory: str | None = None
    ) -> None:
        self._settings = DEFAULTS | dict(settings or {})
        self._owns_directory = directory is None
        self.directory = directory or tempfile.mkdtemp(prefix="ottla-")
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._endpoints: Endpoints | None = None
        self._started = threading.Event()
        self._error: BaseException | None = None

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
        """The address for clients."""
        return str(self._running.kafka)

    @property
    def metrics_address(self) -> str:
        """The address of the metrics and health endpoints."""
        return str(self._running.metrics)

    @property
    def _running(self) -> Endpoints:
        if self._endpoints is None:
            raise RuntimeError("the broker is not running")
        return self._endpoints

    def start(self) -> None:
        """Returns once the broker serves. Raises the error of a failed start."""
        if self._thread:
            raise RuntimeError("the broker is already running")
        self._started.clear()
        self._error = None
        self._thread = threading.Thread(target=self._run, name="ottla-broker", daemon=True)
        self._thread.start()
        if not self._started.wait(START_TIMEOUT_S):
            raise TimeoutError(f"the broker did not start in {START_TIMEOUT_S} s")
        if self._endpoints is None:
            self._thread.join()
            self._thread = None
            self._raise_error()

    def stop(self) -> None:
        """Stops cleanly and keeps the data. Raises an error that ended the broker before."""
        if self._thread and self._loop and self._stopping:
            # The loop is closed if the broker has failed; its error is raised below.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._thread = self._endpoints = None
        self._raise_error()

    def close(self) -> None:
        """Stops, and removes temporary data."""
        try:
            self.stop()
        finally:
            if self._owns_directory:
                shutil.rmtree(self.directory, ignore_errors=True)

    def _raise_error(self) -> None:
        if self._error:
            raise self._error

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread
            self._error = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        stopping = self._stopping = asyncio.Event()
        threads = RealThreads()
        node = Node(
            load(given=self._settings | {"log.dirs": self.directory}, environment={}, file=None),
            Seams(RealClock(), RealEntropy(), RealFiles(), RealNet(), threads, RealWorkers()),
            NodeLogger(error_stream(), RealClock(), 1, level=Level.WARNING),
        )
        try:
            self._endpoints = await node.start()
            self._started.set()
            node.fault.add_done_callback(lambda _: stopping.set())
            await stopping.wait()
            await node.stop()
            if node.fault.done():
                raise node.fault.result()
        finally:
            threads.close()


def error_stream() -> TextIO:
    """Standard error, also while pytest captures it."""
    return sys.__stderr__ or sys.stderr
