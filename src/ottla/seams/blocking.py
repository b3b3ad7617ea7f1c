"""Blocking connections and pauses, for callers without an event loop."""

import socket
import time
from collections.abc import Sequence
from typing import Protocol


class Stream(Protocol):
    """A connection. Each call has its own timeout. Raises TimeoutError, or OSError once the peer
    is gone."""

    def send(self, parts: Sequence[bytes], timeout_ms: int) -> None:
        """Sends all parts in order."""
        ...

    def receive(self, size_max: int, timeout_ms: int) -> bytes:
        """The next bytes, as soon as there are any; empty once the peer has closed."""
        ...

    def close(self) -> None:
        """Idempotent."""
        ...


class Blocking(Protocol):
    def dial(self, host: str, port: int, timeout_ms: int) -> Stream:
        """Opens a connection. Raises TimeoutError, or OSError if no server listens there."""
        ...

    def pause(self, pause_ms: int) -> None:
        """Blocks for `pause_ms`."""
        ...


class RealStream:
    __slots__ = ("_socket",)

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, parts: Sequence[bytes], timeout_ms: int) -> None:
        self._socket.settimeout(timeout_ms / 1e3)
        self._socket.sendall(b"".join(parts))

    def receive(self, size_max: int, timeout_ms: int) -> bytes:
        self._socket.settimeout(timeout_ms / 1e3)
        return self._socket.recv(size_max)

    def close(self) -> None:
        self._socket.close()


class RealBlocking:
    """TCP and `time.sleep`."""

    __slots__ = ()

    def dial(self, host: str, port: int, timeout_ms: int) -> RealStream:
        connected = socket.create_connection((host, port), timeout_ms / 1e3)
        # A request is sent whole: Nagle's delay would only add latency.
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return RealStream(connected)

    def pause(self, pause_ms: int) -> None:
        time.sleep(pause_ms / 1e3)
