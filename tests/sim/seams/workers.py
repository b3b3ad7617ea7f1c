"""A worker without a process: its questions are answered by a simulated thread, at some time."""

import json
from typing import Any

from ottla.seams.clock import Clock
from ottla.seams.files import Files
from ottla.seams.threads import Threads
from ottla.seams.workers import WorkerDied
from ottla.storage.cleaner_worker import CleanerWorker
from ottla.storage.cleaning_job import WORKER_MODULE
from tests.sim.seams.entropy import SimEntropy


class SimWorker:
    """Answers until it is closed, or told to die."""

    def __init__(self, worker: CleanerWorker, threads: Threads, workers: "SimWorkers") -> None:
        self._worker = worker
        self._threads = threads
        self._workers = workers

    async def ask(self, question: bytes) -> bytes:
        self._workers.asked.append(json.loads(question))
        if self._workers.deaths_due:
            self._workers.deaths_due -= 1
            raise WorkerDied("told to")
        return await self._threads.run(lambda: self._worker.answer(question))

    async def close(self) -> None:
        self._workers.alive -= 1


class SimWorkers:
    """`asked` is every question so far; as many of the next as `deaths_due` says kill."""

    def __init__(self, files: Files, threads: Threads, clock: Clock, entropy: SimEntropy) -> None:
        self._files = files
        self._threads = threads
        self._clock = clock
        self._entropy = entropy
        self.asked: list[dict[str, Any]] = []
        self.deaths_due = 0
        self.alive = 0
        self.started = 0

    async def start(self, module: str) -> SimWorker:
        if module != WORKER_MODULE:
            raise OSError(f"no worker {module}")
        self.alive += 1
        self.started += 1
        worker = CleanerWorker(self._files, self._entropy, self._clock, sleeps=False)
        return SimWorker(worker, self._threads, self)

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """What it was asked to compact."""
        return [question["clean"] for question in self.asked if "clean" in question]
