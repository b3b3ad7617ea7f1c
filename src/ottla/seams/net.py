"""TCP listeners and connections. The bytes on a connection belong to its asyncio protocol."""

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from ottla.seams.files import File

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Listener(Protocol):
    """A bound port. It refuses connections until `accept`."""

    @property
    def port(self) -> int:
        """The bound port: the requested one, or the free one that the kernel chose for port 0."""
        ...

    async def accept(self, factory: ProtocolFactory) -> None:
        """Accepts connections from now on, and creates one protocol for each. OSError if the port
        is taken after all."""
        ...

    async def close(self) -> None:
        """Stops accepting connections. Open connections stay open."""
        ...


class Net(Protocol):
    async def bind(self, host: str, port: int) -> Listener:
        """A port that does not accept connections yet. OSError if it is taken."""
        ...

    async def listen(self, factory: ProtocolFactory, host: str, port: int) -> Listener:
        """A port that accepts connections at once. OSError if it is taken."""
        ...

    async def connect(self, factory: ProtocolFactory, host: str, port: int) -> asyncio.BaseProtocol:
        """Connects, and returns the protocol of the connection. OSError if no server listens."""
        ...


class RealListener:
    __slots__ = ("_factory", "_server")

    _server: asyncio.Server

    def __init__(self) -> None:
        self._factory: ProtocolFactory | None = None

    @classmethod
    async def bind(cls, host: str, port: int, backlog_max: int) -> "RealListener":
        listener = cls()
        listener._server = await asyncio.get_running_loop().create_server(
            listener._connected, host, port, backlog=backlog_max, start_serving=False
        )
        return listener

    def _connected(self) -> asyncio.BaseProtocol:
        if self._factory is None:
            raise RuntimeError("a connection before `accept`")
        return self._factory()

    async def accept(self, factory: ProtocolFactory) -> None:
        self._factory = factory
        await self._server.start_serving()

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        self._server.close()
        # A socket that the loop has already accepted reaches its owner within two turns. A loop
        # that stops earlier would leak it.
        for _ in range(2):
            await asyncio.sleep(0)


class RealNet:
    """TCP on the running event loop."""

    __slots__ = ("_backlog_max",)

    def __init__(self, backlog_max: int = 1024) -> None:
        self._backlog_max = backlog_max

    async def bind(self, host: str, port: int) -> RealListener:
        return await RealListener.bind(host, port, self._backlog_max)

    async def listen(self, factory: ProtocolFactory, host: str, port: int) -> RealListener:
        listener = await self.bind(host, port)
        await listener.accept(factory)
        return listener

    async def connect(self, factory: ProtocolFactory, host: str, port: int) -> asyncio.BaseProtocol:
        _, protocol = await asyncio.get_running_loop().create_connection(factory, host, port)
        return protocol


def send_file(transport: asyncio.BaseTransport, file: File, position: int, size: int) -> int:
    """Sends a part of a file by sendfile, and returns the number of bytes sent.

    The transport's buffer must be empty: sendfile would overtake buffered bytes. Raises
    BlockingIOError if the socket accepts no bytes now, and NoSendFile if the connection or the
    file has no kernel descriptor: then the caller reads the file and writes the bytes.
    """
    socket = transport.get_extra_info("socket")
    if socket is None or transport.get_extra_info("sslcontext") is not None:
        raise NoSendFile
    try:
        descriptor = file.fileno()
    except OSError:
        raise NoSendFile from None
    return os.sendfile(socket.fileno(), descriptor, position, size)


class NoSendFile(Exception):
    """This connection or this file does not support sendfile."""
