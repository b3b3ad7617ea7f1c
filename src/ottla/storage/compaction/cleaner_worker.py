"""The cleaner process: `python -m ottla.storage.compaction.cleaner_worker`, run by the broker.

Its requests and answers are in `cleaner_protocol`.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from ottla.errors import CorruptLog
from ottla.seams.clock import Clock, RealClock
from ottla.seams.entropy import Entropy, RealEntropy
from ottla.seams.files import Files, RealFiles
from ottla.seams.workers import pause, serve
from ottla.storage.compaction.cleaner_protocol import CleaningJob, FailureKind, Output
from ottla.storage.compaction.cleaning import Cleaning
from ottla.storage.directory.full_disk import FULL

SECRET_BYTES = 16


class CleanerWorker:
    """Answers the requests of one broker in turn."""

    def __init__(self, files: Files, entropy: Entropy, clock: Clock, *, sleeps: bool) -> None:
        self._files = files
        self._entropy = entropy
        self._clock = clock
        self._sleeps = sleeps
        self._cleaning: Cleaning | None = None
        self._outputs: Iterator[Output] = iter(())

    def answer(self, question: bytes) -> bytes:
        asked = json.loads(question)
        if "clean" in asked:
            self._begin(CleaningJob.from_json(asked["clean"]))
        return json.dumps(self._go_on()).encode()

    def _begin(self, job: CleaningJob) -> None:
        spend = Throttle(self._clock, job.bytes_per_second).spend if self._sleeps else _spend_freely
        # A secret per compaction, so that clients cannot provoke hash collisions.
        secret = self._entropy.token(SECRET_BYTES)
        self._cleaning = Cleaning(self._files, job, secret, spend)
        self._outputs = self._cleaning.outputs()

    def _go_on(self) -> dict[str, Any]:
        if self._cleaning is None:
            return _failed(FailureKind.GONE, "no compaction is under way")
        try:
            output = next(self._outputs, None)
        except CorruptLog as error:
            return self._fail(FailureKind.CORRUPT, error)
        except FileNotFoundError as error:
            return self._fail(FailureKind.GONE, error)
        except OSError as error:
            kind = FailureKind.FULL if error.errno in FULL else FailureKind.DISK
            return self._fail(kind, error)
        if output is not None:
            return {"output": output._asdict()}
        report, self._cleaning = self._cleaning.report, None
        return {"done": asdict(report)}

    def _fail(self, kind: FailureKind, error: Exception) -> dict[str, Any]:
        self._cleaning = None
        return _failed(kind, str(error))


def _failed(kind: FailureKind, why: str) -> dict[str, Any]:
    return {"failed": {"kind": kind, "why": why}}


def _spend_freely(_size: int) -> None:
    pass


class Throttle:
    """Limits the bytes read and written per second by pauses."""

    # Shorter pauses are not worth a system call.
    _PAUSE_S_MIN = 0.01

    def __init__(self, clock: Clock, bytes_per_second: float) -> None:
        self._clock = clock
        self._bytes_per_second = bytes_per_second
        self._started_ns = clock.steady_ns()
        self._spent_bytes = 0

    def spend(self, size: int) -> None:
        self._spent_bytes += size
        passed_s = (self._clock.steady_ns() - self._started_ns) / 1e9
        ahead_s = self._spent_bytes / self._bytes_per_second - passed_s
        if ahead_s > self._PAUSE_S_MIN:
            pause(ahead_s)


def main() -> None:
    worker = CleanerWorker(RealFiles(), RealEntropy(), RealClock(), sleeps=True)
    serve(worker.answer)


if __name__ == "__main__":
    main()
