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
        self._sockets: list[socket.socket] = [self._listener]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def forward_to(self, servers: str) -> None:
        """Clients are taken from now on."""
        host, _, port = servers.rpartition(":")
        target = (host, int(port))
        threading.Thread(target=self._accept, args=(target,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for each in self._sockets:
            _end(each)

    def _accept(self, target: tuple[str, int]) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                broker = socket.create_connection(target)
            except OSError:
                # The broker has stopped; whoever still comes is turned away, as it would do.
                _end(client)
                continue
            self._sockets += [client, broker]
            # The API of each request that has no answer yet: answers keep the order of requests.
            asked: deque[int] = deque()
            for pump in (self._forward_requests, self._forward_answers):
                threading.Thread(target=pump, args=(client, broker, asked), daemon=True).start()

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
    with suppress(OSError):
        # Wakes a thread that reads from it, which closing alone would not.
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
