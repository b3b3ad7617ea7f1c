"""Connections: who listens, who connects. What is said on them belongs to asyncio's protocols."""

import asyncio
from collections.abc import Callable
from typing import Protocol

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
