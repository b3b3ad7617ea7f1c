"""A TCP proxy in front of servers that breaks connections at a chosen byte, or holds all bytes."""

import contextlib
import select
import socket
import threading
from collections.abc import Sequence
from enum import Enum
from types import TracebackType
from typing import NamedTuple, Self

HOST = "127.0.0.1"


class Direction(Enum):
    TO_SERVER = "to the server"
    FROM_SERVER = "from the server"


class Cut(NamedTuple):
    """Breaks the connection after so many more bytes in this direction."""

    direction: Direction
    after_bytes: int


class _Pair(NamedTuple):
    client: socket.socket
    server: socket.socket

    def end(self) -> None:
        for each in self:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for each in self:
            each.close()


class CuttingProxy:
    """One port for each server. One thread per connection forwards its bytes.

    `passed` has the bytes since the last `watch`, by direction.
    """

    def __init__(self, server_ports: Sequence[int]) -> None:
        self._lock = threading.Lock()
        self._is_open = True
        self._is_healed = threading.Event()
        self._is_healed.set()
        self._refuses = False
        self._then_refuses = False
        self._cuts: list[Cut] = []
        self._pairs: list[_Pair] = []
        self.passed: dict[Direction, bytearray] = {each: bytearray() for each in Direction}
        self._listeners = [socket.create_server((HOST, 0)) for _ in server_ports]
        self._threads = [
            threading.Thread(target=self._accept, args=(listener, port), daemon=True)
            for listener, port in zip(self._listeners, server_ports, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def connect_string(self) -> str:
        return ",".join(f"{HOST}:{each.getsockname()[1]}" for each in self._listeners)

    def watch(self, *cuts: Cut, then_refuse: bool = False) -> None:
        """Forgets the bytes so far. Each cut counts from the one before it.

        After the last one all connections are refused if `then_refuse`, until it is healed.
        """
        with self._lock:
            self._then_refuses = then_refuse
            self.passed = {each: bytearray() for each in Direction}
            self._cuts = list(cuts)

    @property
    def cuts_left(self) -> int:
        return len(self._cuts)

    def hold(self) -> None:
        """From now on no byte passes; connections stay, and new ones get no answer."""
        self._is_healed.clear()

    def refuse(self) -> None:
        """Breaks all connections, and new ones at once."""
        self._refuses = True
        self.break_all()

    def heal(self) -> None:
        self._refuses = False
        self._is_healed.set()

    def break_all(self) -> None:
        with self._lock:
            for pair in self._pairs:
                pair.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_open = False
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        self.heal()
        self.break_all()
        for thread in self._threads:
            thread.join()

    def _accept(self, listener: socket.socket, server_port: int) -> None:
        forwarding = []
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                break
            if self._refuses:
                client.close()
                continue
            try:
                server = socket.create_connection((HOST, server_port))
            except OSError:
                client.close()
                continue
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            pair = _Pair(client, server)
            with self._lock:
                self._pairs.append(pair)
            thread = threading.Thread(target=self._forward, args=(pair,), daemon=True)
            thread.start()
            forwarding.append(thread)
        for thread in forwarding:
            thread.join()

    def _forward(self, pair: _Pair) -> None:
        try:
            while self._is_open and self._pass_some(pair):
                pass
        except OSError:
            pass
        finally:
            with self._lock:
                self._pairs.remove(pair)
            pair.end()
            pair.close()

    def _pass_some(self, pair: _Pair) -> bool:
        """False once the connection is over."""
        ready, _, _ = select.select(pair, (), ())
        self._is_healed.wait()
        for source, target, direction in (
            (pair.client, pair.server, Direction.TO_SERVER),
            (pair.server, pair.client, Direction.FROM_SERVER),
        ):
            if source not in ready:
                continue
            content = source.recv(1 << 16)
            allowed, is_cut = self._allowed(direction, len(content))
            if content[:allowed]:
                with self._lock:
                    self.passed[direction] += content[:allowed]
                target.sendall(content[:allowed])
            if is_cut or not content:
                return False
        return True

    def _allowed(self, direction: Direction, count: int) -> tuple[int, bool]:
        """How many of these bytes pass, and whether the connection breaks then."""
        with self._lock:
            if not self._cuts or self._cuts[0].direction is not direction:
                return count, False
            left = self._cuts[0].after_bytes
            if count <= left:
                self._cuts[0] = Cut(direction, left - count)
                return count, False
            self._cuts.pop(0)
            self._refuses = self._refuses or (self._then_refuses and not self._cuts)
            return left, True
