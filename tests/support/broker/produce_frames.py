"""Produce requests of which a connection sees the API key only; the rest is a letter and a number.

`a` is appended and waits for replication; `g` as well, and may be gathered. `w` waits before it is
appended. `i` is answered at once, `n` and `z` are not answered, `z` after a wait. `x` is a
PeerError, `!` a bug, `?` a bug in a later response. Other requests: `e` is answered at once, `f`
later.
"""

import asyncio
from collections.abc import Awaitable
from functools import partial
from typing import Any

from ottla.broker.net.connection import Connection
from ottla.broker.net.response_queue import PendingResponse, ResponseParts
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.framing import LENGTH_BYTES

PRODUCE = b"\0\0"
OTHER = b"\0\1"
# Letters of other requests.
OTHERS = "ef"
SILENT = "nz"


def framed(*frames: bytes) -> bytes:
    return b"".join(len(frame).to_bytes(LENGTH_BYTES, "big") + frame for frame in frames)


def request(letter: str, number: int, size_bytes: int = 0) -> bytes:
    prefix = OTHER if letter in OTHERS else PRODUCE
    return b"%s%s%d" % (prefix, letter.encode(), number) + b"." * size_bytes


def letter_of(frame: bytes) -> str:
    return chr(frame[len(PRODUCE)])


class ProduceFrames:
    """Handles frames. `commit` lets a waiting request be answered."""

    def __init__(self, *, held_bytes: int = 100) -> None:
        self.handled: list[bytes] = []
        self.gathered: list[tuple[Connection, bytes]] = []
        self.faults: list[Exception] = []
        self.abandoned: list[bytes] = []
        self.waiting: dict[bytes, asyncio.Future[bytes]] = {}
        self._held_bytes = held_bytes

    def commit(self, frame: bytes) -> None:
        future = self.waiting.pop(frame)
        if not future.done():
            future.set_result(frame)

    def gather(self, frame: memoryview, connection: Connection) -> bool:
        if letter_of(bytes(frame)) != "g":
            return False
        self.gathered.append((connection, bytes(frame)))
        return True

    def gather_silent(self, frame: memoryview, connection: Connection) -> bool:
        if letter_of(bytes(frame)) != "n":
            return False
        self.gathered.append((connection, bytes(frame)))
        return True

    def settle_gathered(self) -> None:
        gathered, self.gathered = self.gathered, []
        for connection, frame in gathered:
            self.handled.append(frame)
            connection.settle(None if letter_of(frame) == "n" else self._appended(frame))

    def handle(
        self, frame: memoryview, connection: Connection
    ) -> ResponseParts | PendingResponse | Awaitable[ResponseParts]:
        del connection
        sent = bytes(frame)
        self.handled.append(sent)
        match letter_of(sent):
            case "a" | "g" | "?":
                return self._appended(sent)
            case "w" | "z":
                return self._later(sent)
            case "f":
                return PendingResponse(self._wait(sent), self._finish)
            case "i" | "e":
                return [framed(sent)]
            case "n":
                return None
            case "x":
                raise PeerError(ErrorCode.INVALID_REQUEST, "a bad letter")
            case _:
                raise RuntimeError("our own fault")

    def failed(self, error: Exception) -> None:
        self.faults.append(error)

    def _wait(self, frame: bytes) -> "asyncio.Future[bytes]":
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.waiting[frame] = future
        return future

    def _appended(self, frame: bytes) -> PendingResponse:
        return PendingResponse(
            self._wait(frame),
            self._finish,
            partial(self.abandoned.append, frame),
            is_appended=True,
            held_bytes=self._held_bytes,
        )

    async def _later(self, frame: bytes) -> ResponseParts:
        await self._wait(frame)
        return None if letter_of(frame) == "z" else [framed(frame)]

    @staticmethod
    def _finish(come: "asyncio.Future[Any]") -> ResponseParts:
        frame = come.result()
        if letter_of(frame) == "?":
            raise RuntimeError("our own fault")
        return [framed(frame)]
