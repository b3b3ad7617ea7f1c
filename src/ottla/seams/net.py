"""Connections: who listens, who connects. What is said on them belongs to asyncio's protocols."""

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from ottla.seams.files import File

ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Listener(Protocol):
    @property
    def port(self) -> int:
        """The port in force: the one asked for, or the free one that port 0 found."""
        ...

    async def close(self) -> None:
        """Takes no more connections; those that stand, stand."""
        ...


class Net(Protocol):
    async def listen(self, factory: ProtocolFactory, host: str, port: int) -> Listener:
        """Makes one protocol for each connection that arrives. OSError if the port is taken."""
        ...

    async def connect(self, factory: ProtocolFactory, host: str, port: int) -> asyncio.BaseProtocol:
        """The protocol of a new connection. OSError if nobody answers."""
        ...


class RealListener:
    __slots__ = ("_server",)

    def __init__(self, server: asyncio.Server) -> None:
        self._server = server

    @property
    def port(self) -> int:
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        self._server.close()
        # What the loop has accepted already becomes a connection within two turns, and its owner's
        # to end; a loop that stops before would forget an open socket.
        for _ in range(2):
            await asyncio.sleep(0)


class RealNet:
    """TCP, by whichever loop is running."""

    __slots__ = ("_backlog_max",)

    def __init__(self, backlog_max: int = 1024) -> None:
        self._backlog_max = backlog_max

    async def listen(self, factory: ProtocolFactory, host: str, port: int) -> RealListener:
        loop = asyncio.get_running_loop()
        return RealListener(
            await loop.create_server(factory, host, port, backlog=self._backlog_max)
        )

    async def connect(self, factory: ProtocolFactory, host: str, port: int) -> asyncio.BaseProtocol:
        _, protocol = await asyncio.get_running_loop().create_connection(factory, host, port)
        return protocol


def send_file(transport: asyncio.BaseTransport, file: File, position: int, size: int) -> int:
    """Sends a piece of a file on a connection without copying it; how many bytes went.

    Only while the transport has nothing buffered, else what it holds would be overtaken.
    BlockingIOError if the connection takes nothing now. NoSendFile where there is no socket of the
    kernel's, or no file: then it has to be read and written.
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
    """This connection, or this file, knows no sendfile."""
