"""Processes of our own that do long work: started, never forked, asked and answered by pipe.

A worker gets one question at a time, of bytes, and answers with bytes. It holds nothing that is
not in a question or on disk: if it dies, the next one is asked again.
"""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from struct import Struct
from typing import BinaryIO, Protocol

from ottla.errors import OttlaError

MESSAGE_BYTES_MAX = 256 << 20
# How much a worker stands back behind what answers clients.
NICENESS = 5

_LENGTH = Struct(">I")
_PR_SET_PDEATHSIG = 1


class WorkerDied(OttlaError):
    """There is no answer, and will be none: start another one."""


class Worker(Protocol):
    async def ask(self, question: bytes) -> bytes:
        """Its answer. WorkerDied if it ends first. One question at a time."""
        ...

    async def close(self) -> None:
        """Ends it, whatever it does, and waits until it has ended."""
        ...


class Workers(Protocol):
    async def start(self, module: str) -> Worker:
        """A process that runs this module of ours, which calls `serve`. OSError if it cannot be."""
        ...


class RealWorker:
    """A child process, and the pipes to and from it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, question: bytes) -> bytes:
        to, answers = self._process.stdin, self._process.stdout
        # uvloop takes it for our own fault if somebody writes to a pipe that it has closed.
        if to is None or answers is None or to.is_closing():
            raise WorkerDied(f"process {self.pid} has ended")
        try:
            to.write(_LENGTH.pack(len(question)) + question)
            await to.drain()
            (length,) = _LENGTH.unpack(await answers.readexactly(_LENGTH.size))
            _check_length(length)
            return await answers.readexactly(length)
        # A RuntimeError is uvloop's way to say that the pipe was closed just now.
        except (ConnectionError, RuntimeError, asyncio.IncompleteReadError) as error:
            raise WorkerDied(f"process {self.pid} has ended") from error

    async def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()


class RealWorkers:
    """Children of this process, which end with it."""

    __slots__ = ()

    async def start(self, module: str) -> RealWorker:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", module),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return RealWorker(process)


# The worker's side


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answers questions until whoever asks is gone."""
    # An orphan must not write beside the next broker's worker. Elsewhere than on Linux it ends when
    # it next looks for a question.
    end_with_parent(signal.SIGKILL)
    # Whoever interrupts the whole group means the parent, who ends this process in good time.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    questions, answers = sys.stdin.buffer, sys.stdout.buffer
    while (question := _read(questions)) is not None:
        reply = answer(question)
        answers.write(_LENGTH.pack(len(reply)) + reply)
        answers.flush()


def pause(seconds: float) -> None:
    """Does nothing for so long; for a worker alone."""
    time.sleep(seconds)


def _read(questions: BinaryIO) -> bytes | None:
    head = questions.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    _check_length(length)
    question = questions.read(length)
    return question if len(question) == length else None


def _check_length(length: int) -> None:
    if length > MESSAGE_BYTES_MAX:
        raise WorkerDied(f"a message of {length} bytes, at most {MESSAGE_BYTES_MAX} are taken")


def end_with_parent(signal_number: int) -> None:
    """This process gets the signal when its parent ends, however that ends. On Linux alone."""
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal_number)
