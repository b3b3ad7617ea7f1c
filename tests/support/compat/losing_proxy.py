"""A proxy between clients and a broker that loses answers: the broker has done what was asked, and
the client, whose connection ends, cannot know.
"""

import socket
import struct
import threading
from collections import deque
from contextlib import suppress
from types import TracebackType
from typing import Self

PRODUCE = 0
FRAME_LENGTH = struct.Struct(">i")
API_KEY = struct.Struct(">h")


class LosingProxy:
    """Listens for the length of a `with`; every so many answers to a produce are lost."""

    def __init__(self, lose_every: int) -> None:
        self.lost = 0
        self._lose_every = lose_every
        self._produced = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        # Closed when no thread is left: one that is about to read would else read from whatever
        # was given the same descriptor meanwhile.
        self._sockets: list[socket.socket] = []
        self._accepting: threading.Thread | None = None
        self._pumps: list[threading.Thread] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def forward_to(self, servers: str) -> None:
        """Clients are taken from now on."""
        host, _, port = servers.rpartition(":")
        target = (host, int(port))
        self._accepting = threading.Thread(target=self._accept, args=(target,), daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _end(self._listener)
        if self._accepting is not None:
            self._accepting.join()
        for each in self._sockets:
            _end(each)
        for pump in self._pumps:
            pump.join()
        for each in (self._listener, *self._sockets):
            each.close()

    def _accept(self, target: tuple[str, int]) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(client)
            try:
                broker = socket.create_connection(target)
            except OSError:
                # The broker has stopped; whoever still comes is turned away, as it would do.
                _end(client)
                continue
            self._sockets.append(broker)
            # The API of each request that has no answer yet: answers keep the order of requests.
            asked: deque[int] = deque()
            for forward in (self._forward_requests, self._forward_answers):
                ends = (client, broker, asked)
                self._pumps.append(threading.Thread(target=forward, args=ends, daemon=True))
                self._pumps[-1].start()

    def _forward_requests(
        self, client: socket.socket, broker: socket.socket, asked: deque[int]
    ) -> None:
        while frame := _read_frame(client):
            [api_key] = API_KEY.unpack_from(frame, FRAME_LENGTH.size)
            asked.append(api_key)
            if not _send(broker, frame):
                break
        _end(broker)

    def _forward_answers(
        self, client: socket.socket, broker: socket.socket, asked: deque[int]
    ) -> None:
        while frame := _read_frame(broker):
            if asked.popleft() == PRODUCE and self._is_lost():
                break
            if not _send(client, frame):
                break
        _end(client)
        _end(broker)

    def _is_lost(self) -> bool:
        self._produced += 1
        if self._produced % self._lose_every:
            return False
        self.lost += 1
        return True


def _read_frame(source: socket.socket) -> bytes:
    """A whole frame with its length, or nothing at the end of the connection."""
    head = _read(source, FRAME_LENGTH.size)
    if not head:
        return b""
    body = _read(source, FRAME_LENGTH.unpack(head)[0])
    return head + body if body else b""


def _read(source: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        try:
            part = source.recv(size - len(received))
        except OSError:
            return b""
        if not part:
            return b""
        received += part
    return bytes(received)


def _send(target: socket.socket, frame: bytes) -> bool:
    try:
        target.sendall(frame)
    except OSError:
        return False
    return True


def _end(connection: socket.socket) -> None:
    """Both sides learn of it, and so does a thread that reads from it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
