"""A worker without a process: it does one thing with the disk, then others have their turn.

Its code runs in a thread of its own, which stands still but for the moment between two operations.
These happen on the simulated loop, each at a time of its own, so that anything may happen in
between: the worker dies, or the broker does, or the log is not what it was.
"""

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

from ottla.seams.clock import Clock
from ottla.seams.workers import WorkerDied
from ottla.storage.compaction.cleaner_protocol import WORKER_MODULE
from ottla.storage.compaction.cleaner_worker import CleanerWorker
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.files import SimFile, SimFiles

STEP_US_MAX = 1_000


class _Killed(BaseException):
    """Ends a thread wherever it stands; nothing that it runs may take it for an error."""


class _Puppet:
    """A call in a thread, which asks for one operation after another and waits for each."""

    def __init__(self, call: Callable[[], bytes]) -> None:
        self._call = call
        self._is_to_go_on = threading.Semaphore(0)
        self._stands_still = threading.Semaphore(0)
        self._is_killed = False
        self._outcome: Callable[[], Any] = lambda: None
        self.operation: Callable[[], Any] | None = None
        self.answer: bytes | None = None
        self.error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="simulated worker", daemon=True)

    def start(self) -> None:
        """Up to the first operation."""
        self._thread.start()
        self._stands_still.acquire()

    def step(self) -> None:
        """Does what it asks for, and lets it go on to the next operation or to its end."""
        operation, self.operation = self.operation, None
        if operation is None:
            raise RuntimeError("it has come to its end")
        self._outcome = _outcome_of(operation)
        self._is_to_go_on.release()
        self._stands_still.acquire()

    def kill(self) -> None:
        self._is_killed = True
        while self._thread.is_alive():
            self._is_to_go_on.release()
            self._thread.join(0.001)

    # In the thread

    def perform(self, operation: Callable[[], Any]) -> Any:
        if not self._is_killed:
            self.operation = operation
            self._stands_still.release()
            self._is_to_go_on.acquire()
        if self._is_killed:
            raise _Killed
        return self._outcome()

    def _run(self) -> None:
        try:
            self.answer = self._call()
        except Exception as error:  # noqa: BLE001 - the caller must see it
            self.error = error
        except _Killed:
            return
        self._stands_still.release()


def _outcome_of(operation: Callable[[], Any]) -> Callable[[], Any]:
    try:
        result = operation()
    except OSError as failure:
        error = failure

        def fail() -> Any:
            raise error

        return fail
    return lambda: result


class _Stepped:
    """Files, or one of them, each call of which is performed by somebody else."""

    def __init__(self, target: Any, perform: Callable[[Callable[[], Any]], Any]) -> None:
        self._target = target
        self._perform = perform

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._target, name)
        # A file is also closed when nobody has it any more, by whoever notices that.
        if name == "close" or not callable(member):
            return member

        def call(*args: Any, **named: Any) -> Any:
            result = self._perform(lambda: member(*args, **named))
            return _Stepped(result, self._perform) if isinstance(result, SimFile) else result

        return call


class SimWorker:
    """Answers until it is closed, killed, or told to die."""

    def __init__(self, workers: "SimWorkers", files: SimFiles, entropy: SimEntropy) -> None:
        self._workers = workers
        self._files = files
        self._entropy = entropy
        self._puppet: _Puppet | None = None
        self._is_dead = False
        stepped: Any = _Stepped(files, self._perform)
        self._worker = CleanerWorker(stepped, entropy, workers.clock, sleeps=False)

    async def call(self, request: bytes) -> bytes:
        self._workers.asked.append(json.loads(request))
        if self._workers.deaths_due:
            self._workers.deaths_due -= 1
            self.kill()
        puppet = self._puppet = _Puppet(lambda: self._worker.answer(request))
        try:
            puppet.start()
            while puppet.operation is not None:
                await asyncio.sleep(self._entropy.between(1, STEP_US_MAX) / 1e6)
                if self._is_dead:
                    raise WorkerDied("killed")
                puppet.step()
            if puppet.error is not None:
                raise puppet.error
            return puppet.answer or b""
        finally:
            puppet.kill()
            self._puppet = None

    @property
    def is_busy(self) -> bool:
        return self._puppet is not None

    async def close(self) -> None:
        self.kill()
        self._workers.alive -= 1

    def kill(self) -> None:
        """Kills the worker; a pending call fails with WorkerDied."""
        self._is_dead = True
        self._files.crash()

    def _perform(self, operation: Callable[[], Any]) -> Any:
        if self._puppet is None:
            raise RuntimeError("no call is pending")
        return self._puppet.perform(operation)


class SimWorkers:
    """`asked` holds every request so far. The next `deaths_due` requests kill their worker."""

    def __init__(
        self, new_files: Callable[[], SimFiles], clock: Clock, entropy: SimEntropy
    ) -> None:
        self._new_files = new_files
        self._entropy = entropy
        self._latest: SimWorker | None = None
        self.clock = clock
        self.asked: list[dict[str, Any]] = []
        self.deaths_due = 0
        self.alive = 0
        self.started = 0

    async def start(self, module: str) -> SimWorker:
        if module != WORKER_MODULE:
            raise OSError(f"no worker {module}")
        self.alive += 1
        self.started += 1
        entropy = self._entropy.fork(f"worker-{self.started}")
        self._latest = SimWorker(self, self._new_files(), entropy)
        return self._latest

    @property
    def are_busy(self) -> bool:
        """Whether a call is pending."""
        return self._latest is not None and self._latest.is_busy

    def kill(self) -> None:
        """Ends the process that there is, in the middle of whatever it does."""
        if self._latest is not None:
            self._latest.kill()

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """The compaction jobs that were requested."""
        return [request["clean"] for request in self.asked if "clean" in request]
