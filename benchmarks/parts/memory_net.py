"""Connections in memory, between brokers of one process: the protocols' costs without sockets."""

import asyncio
from collections import deque
from typing import Any, cast

from ottla.seams.net import ProtocolFactory

HOST = "127.0.0.1"


class MemoryNet:
    """Listeners and connections of one process."""

    def __init__(self) -> None:
        self._listeners: dict[int, _Listener] = {}

    async def bind(self, host: str, port: int) -> "_Listener":
        del host
        port = port or 1 + max(self._listeners, default=1_000)
        listener = self._listeners[port] = _Listener(port)
        return listener

    async def listen(self, factory: ProtocolFactory, host: str, port: int) -> "_Listener":
        listener = await self.bind(host, port)
        await listener.accept(factory)
        return listener

    async def connect(self, factory: ProtocolFactory, host: str, port: int) -> asyncio.BaseProtocol:
        del host
        listener = self._listeners.get(port)
        if listener is None or listener.factory is None:
            raise ConnectionRefusedError(port)
        near, far = factory(), listener.factory()
        one, other = _Transport(far), _Transport(near)
        one.peer, other.peer = other, one
        near.connection_made(cast("asyncio.BaseTransport", one))
        far.connection_made(cast("asyncio.BaseTransport", other))
        return near


class _Listener:
    def __init__(self, port: int) -> None:
        self.port = port
        self.factory: ProtocolFactory | None = None

    async def accept(self, factory: ProtocolFactory) -> None:
        self.factory = factory

    async def close(self) -> None:
        self.factory = None


class _Transport:
    """One end of a connection. What is written here arrives at the other end's protocol."""

    def __init__(self, reader: asyncio.BaseProtocol) -> None:
        self._reader: Any = reader
        self._loop = asyncio.get_running_loop()
        self._unread: deque[bytes] = deque()
        self._is_due = False
        self._is_paused = False
        self._is_closing = False
        self.peer: _Transport | None = None

    def write(self, data: Any) -> None:
        self.writelines([data])

    def writelines(self, parts: Any) -> None:
        if not self._is_closing:
            self._unread.append(b"".join(parts))
            self._schedule()

    def _schedule(self) -> None:
        if self._unread and not self._is_due and not self._is_paused:
            self._is_due = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._is_due = False
        while self._unread and not self._is_paused and not self._is_closing:
            data = self._unread.popleft()
            if isinstance(self._reader, asyncio.BufferedProtocol):
                self._deliver_into_buffer(memoryview(data))
            else:
                self._reader.data_received(data)

    def _deliver_into_buffer(self, data: memoryview) -> None:
        while data:
            room = self._reader.get_buffer(len(data))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            self._reader.buffer_updated(size)
            data = data[size:]

    # The reading of this end is done by the other end's transport.

    def pause_reading(self) -> None:
        if self.peer is not None:
            self.peer._is_paused = True

    def resume_reading(self) -> None:
        if self.peer is not None:
            self.peer._is_paused = False
            self.peer._schedule()

    def abort(self) -> None:
        self.close()

    def close(self) -> None:
        for end in (self, self.peer):
            if end is not None and not end._is_closing:
                end._is_closing = True
                self._loop.call_soon(end._reader.connection_lost, None)

    def is_closing(self) -> bool:
        return self._is_closing

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return (HOST, 0) if name in ("peername", "sockname") else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0
