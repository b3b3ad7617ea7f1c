"""Worker processes for long work: spawned, never forked, with requests and responses over pipes.

A worker handles one request at a time. Requests and responses are bytes. A worker keeps no state
beyond its requests and the disk: if it dies, the request is sent to another worker.
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
# A worker yields the CPU to the process that serves clients.
NICENESS = 5

_LENGTH = Struct(">I")
_PR_SET_PDEATHSIG = 1


class WorkerDied(OttlaError):
    """The worker ended before it responded."""


class Worker(Protocol):
    async def call(self, request: bytes) -> bytes:
        """Sends a request and returns its response, one at a time. WorkerDied."""
        ...

    async def close(self) -> None:
        """Kills the process and waits until it has ended."""
        ...


class Workers(Protocol):
    async def start(self, module: str) -> Worker:
        """Starts a process that runs this module, which calls `serve`. OSError if it fails."""
        ...


class RealWorker:
    """A child process and its pipes."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def call(self, request: bytes) -> bytes:
        requests, responses = self._process.stdin, self._process.stdout
        # uvloop treats a write to a pipe that it has closed as a bug of the caller: check first.
        if requests is None or responses is None or requests.is_closing():
            raise WorkerDied(f"process {self.pid} has ended")
        try:
            requests.write(_LENGTH.pack(len(request)) + request)
            await requests.drain()
            (length,) = _LENGTH.unpack(await responses.readexactly(_LENGTH.size))
            _check_length(length)
            return await responses.readexactly(length)
        # uvloop raises RuntimeError if the pipe was closed in the meantime.
        except (ConnectionError, RuntimeError, asyncio.IncompleteReadError) as error:
            raise WorkerDied(f"process {self.pid} has ended") from error

    async def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()


class RealWorkers:
    """Child processes, which end with this process."""

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


def serve(handle: Callable[[bytes], bytes]) -> None:
    """Handles requests until the parent closes the pipe."""
    # An orphan must not write beside the next broker's worker. Outside of Linux it ends when it
    # next reads a request.
    end_with_parent(signal.SIGKILL)
    # Ctrl-C signals the whole process group. The parent handles it, and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    requests, responses = sys.stdin.buffer, sys.stdout.buffer
    while (request := _read(requests)) is not None:
        response = handle(request)
        responses.write(_LENGTH.pack(len(response)) + response)
        responses.flush()


def pause(seconds: float) -> None:
    """Blocks the calling thread. For workers only: it would stall an event loop."""
    time.sleep(seconds)


def _read(requests: BinaryIO) -> bytes | None:
    head = requests.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    _check_length(length)
    request = requests.read(length)
    return request if len(request) == length else None


def _check_length(length: int) -> None:
    if length > MESSAGE_BYTES_MAX:
        raise WorkerDied(f"a message of {length} bytes exceeds the limit of {MESSAGE_BYTES_MAX}")


def end_with_parent(signal_number: int) -> None:
    """This process receives the signal when its parent ends. Linux only."""
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal_number)
