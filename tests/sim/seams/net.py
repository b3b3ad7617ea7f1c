"""A simulated network: hosts and ports in memory, and everything that befalls packets.

A `SimNetwork` is the world; `network.host(name)` is the `Net` of one machine in it.
"""

import asyncio
import errno
import itertools
import os
import socket
from collections.abc import Callable
from contextvars import Context, copy_context

from ottla.seams.net import ProtocolFactory
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.owner import OWNER, kernel_context, owner_in
from tests.sim.seams.trace import Trace
from tests.sim.seams.transport import SimTransport
from tests.sim.seams.wire import Conditions, Wire, connection_error

LOOPBACK_NAMES = ("127.0.0.1", "::1", "localhost")
ANY_NAMES = ("", "0.0.0.0", "::")
EPHEMERAL_PORTS = range(32_768, 61_000)


class Route:
    """The way from one host to another, as it is at the moment."""

    __slots__ = ("_network", "source", "target")

    def __init__(self, network: "SimNetwork", source: "SimNet", target: "SimNet") -> None:
        self._network = network
        self.source = source
        self.target = target

    @property
    def conditions(self) -> Conditions:
        return self._network.conditions_between(self.source.name, self.target.name)

    @property
    def blocked(self) -> bool:
        return not self.target.up or self._network.is_blocked(self.source.name, self.target.name)

    async def cross(self, entropy: SimEntropy) -> None:
        """One packet gets over, sent again and again while it is lost. TimeoutError in the end."""
        waited_s, pause_s = 0.0, 1.0
        while self.blocked:
            if waited_s * 1e3 >= self.conditions.connect_give_up_ms:
                raise connection_error(errno.ETIMEDOUT)
            await asyncio.sleep(pause_s)
            waited_s += pause_s
            pause_s *= 2
        await asyncio.sleep(self.conditions.latency_s(entropy))


class Connection:
    """Two ends and the two wires between them. The first end is the one that connected."""

    __slots__ = ("client", "server", "wires")

    def __init__(
        self,
        number: int,
        there: Route,
        back: Route,
        entropy: SimEntropy,
        trace: Trace,
        ports: tuple[int, int],
        contexts: tuple[Context, Context],
    ) -> None:
        fork = entropy.fork
        onward = Wire(there, fork("onward"), self.reset, f"{number}>")
        backward = Wire(back, fork("backward"), self.reset, f"{number}<")
        near, far = (there.source.name, ports[0]), (there.target.name, ports[1])
        names = {"sockname": near, "peername": far}, {"sockname": far, "peername": near}
        self.client = SimTransport(
            onward, backward, there, fork("client"), trace, names[0], contexts[0]
        )
        self.server = SimTransport(
            backward, onward, back, fork("server"), trace, names[1], contexts[1]
        )
        onward.source = backward.target = self.client
        onward.target = backward.source = self.server
        self.wires = (onward, backward)

    @property
    def over(self) -> bool:
        return self.client.gone and self.server.gone

    def reset(self) -> None:
        """Both ends find the connection broken."""
        for end in (self.client, self.server):
            end.on_failure(connection_error(errno.ECONNRESET))


class SimListener:
    """Nobody is let in while `factory` is None.

    It accepts in the context in which it was bound: a process that is paused accepts later.
    """

    __slots__ = ("_host", "context", "factory", "loopback_only", "port")

    def __init__(self, host: "SimNet", port: int, *, loopback_only: bool) -> None:
        self._host = host
        self.context = copy_context()
        self.factory: ProtocolFactory | None = None
        self.port = port
        self.loopback_only = loopback_only

    @property
    def is_open(self) -> bool:
        return self._host.listeners.get(self.port) is self

    async def accept(self, factory: ProtocolFactory) -> None:
        self.factory = factory

    async def close(self) -> None:
        if self.is_open:
            del self._host.listeners[self.port]


class SimNet:
    """One machine's `Net`. What crashes here is every process on it at once."""

    def __init__(self, network: "SimNetwork", name: str) -> None:
        self.name = name
        self.up = True
        self.listeners: dict[int, SimListener] = {}
        self._network = network
        self._ephemeral_ports = itertools.cycle(EPHEMERAL_PORTS)

    async def bind(self, host: str, port: int) -> SimListener:
        self._require_up()
        if host not in (*ANY_NAMES, *LOOPBACK_NAMES, self.name):
            raise OSError(errno.EADDRNOTAVAIL, f"{os.strerror(errno.EADDRNOTAVAIL)}: {host}")
        port = port or self.free_port()
        if port in self.listeners:
            raise OSError(errno.EADDRINUSE, f"{os.strerror(errno.EADDRINUSE)}: {host}:{port}")
        listener = SimListener(self, port, loopback_only=host in LOOPBACK_NAMES)
        self.listeners[port] = listener
        return listener

    async def listen(self, factory: ProtocolFactory, host: str, port: int) -> SimListener:
        listener = await self.bind(host, port)
        await listener.accept(factory)
        return listener

    async def connect(self, factory: ProtocolFactory, host: str, port: int) -> asyncio.BaseProtocol:
        self._require_up()
        target = self if host in LOOPBACK_NAMES else self._network.find(host)
        return await self._network.connect(factory, self, target, port)

    def crash(self) -> None:
        """The process dies; its kernel lives on and closes its connections for it."""
        self.listeners.clear()
        self._network.end_each(self, lambda transport: transport.die())

    def power_loss(self) -> None:
        """The machine is gone without a word, until `boot`. Its peers have half of a connection."""
        self.up = False
        self.listeners.clear()
        self._network.end_each(self, lambda transport: transport.vanish())

    def boot(self) -> None:
        """The machine is back and knows of no connection: what its old peers send is reset."""
        self.up = True
        self._network.resume()

    def free_port(self) -> int:
        return next(port for port in self._ephemeral_ports if port not in self.listeners)

    def _require_up(self) -> None:
        owner = OWNER.get()
        if not self.up or (owner is not None and owner.is_dead):
            raise connection_error(errno.ENETDOWN)


class SimNetwork:
    """All hosts, and what lies between them. `conditions` may be replaced at any time."""

    def __init__(
        self,
        entropy: SimEntropy | int = 0,
        conditions: Conditions | None = None,
        *,
        trace: Trace | None = None,
    ) -> None:
        self.conditions = conditions if conditions is not None else Conditions()
        self._entropy = SimEntropy(entropy) if isinstance(entropy, int) else entropy
        self._trace = trace if trace is not None else Trace()
        self._hosts: dict[str, SimNet] = {}
        self._links: dict[tuple[str, str], Conditions] = {}
        self._blocked: dict[tuple[str, str], bool] = {}
        self._connections: list[Connection] = []
        self._connection_count = 0

    def host(self, name: str) -> SimNet:
        """The machine of that name, new if there was none."""
        if name not in self._hosts:
            self._hosts[name] = SimNet(self, name)
        return self._hosts[name]

    def find(self, name: str) -> SimNet:
        """OSError if no machine has that name."""
        if name not in self._hosts:
            raise socket.gaierror(socket.EAI_NONAME, f"Name or service not known: {name}")
        return self._hosts[name]

    def set_link(self, source: str, target: str, conditions: Conditions) -> None:
        """The way from `source` to `target` has conditions of its own from now on."""
        self._links[source, target] = conditions

    def conditions_between(self, source: str, target: str) -> Conditions:
        return self._links.get((source, target), self.conditions)

    def block(self, source: str, target: str) -> None:
        """What `source` sends to `target` is lost, and neither is told."""
        self._blocked[source, target] = True

    def partition(self, one: str, other: str) -> None:
        """A black hole between two hosts, both ways."""
        self.block(one, other)
        self.block(other, one)

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """Opens the way between two hosts again, or every way if none are named."""
        if one is None or other is None:
            self._blocked.clear()
        else:
            self._blocked.pop((one, other), None)
            self._blocked.pop((other, one), None)
        self.resume()

    def is_blocked(self, source: str, target: str) -> bool:
        return (source, target) in self._blocked

    def reset(self, one: str, other: str) -> None:
        """Breaks every connection between two hosts."""
        for connection in self._live():
            names = {end.get_extra_info("sockname")[0] for end in _ends(connection)}
            if names == {one, other}:
                connection.reset()

    def resume(self) -> None:
        """What was held up sets out again, wherever the way is open now."""
        for connection in self._live():
            for wire in connection.wires:
                wire.resume()

    def end_each(self, host: SimNet, end: Callable[[SimTransport], None]) -> None:
        """Ends every transport of one host."""
        for connection in self._live():
            for transport in _ends(connection):
                if transport.get_extra_info("sockname")[0] == host.name:
                    end(transport)

    def trace_hash(self) -> str:
        return self._trace.hash()

    async def connect(
        self, factory: ProtocolFactory, source: SimNet, target: SimNet, port: int
    ) -> asyncio.BaseProtocol:
        self._connection_count += 1
        number = self._connection_count
        entropy = self._entropy.fork(f"connection-{number}")
        there, back = Route(self, source, target), Route(self, target, source)
        await there.cross(entropy)
        listener = target.listeners.get(port)
        await back.cross(entropy)
        if (
            listener is None
            or listener.factory is None
            or (listener.loopback_only and source is not target)
        ):
            raise connection_error(errno.ECONNREFUSED)
        protocol = factory()
        ports = (source.free_port(), port)
        contexts = copy_context(), listener.context
        connection = Connection(number, there, back, entropy, self._trace, ports, contexts)
        self._connections = [*self._live(), connection]
        # The listener hears of it once the handshake's last packet has arrived.
        loop = asyncio.get_running_loop()
        loop.call_later(
            there.conditions.latency_s(entropy),
            _arrive,
            listener,
            connection.server,
            context=kernel_context(),
        )
        connection.client.start(protocol)
        return protocol

    def _live(self) -> list[Connection]:
        return [connection for connection in self._connections if not connection.over]


def _ends(connection: Connection) -> tuple[SimTransport, SimTransport]:
    return connection.client, connection.server


def _arrive(listener: SimListener, transport: SimTransport) -> None:
    """The connection is in the listener's backlog, from where its process accepts it."""
    owner = owner_in(listener.context)
    if owner is not None and owner.is_paused and listener.is_open:
        loop = asyncio.get_running_loop()
        loop.call_soon(_accept, listener, transport, context=listener.context)
    else:
        listener.context.run(_accept, listener, transport)


def _accept(listener: SimListener, transport: SimTransport) -> None:
    if transport.gone:
        return
    if not listener.is_open or listener.factory is None:
        # Whoever listened has closed, or died, while the handshake was under way.
        transport.die()
        return
    try:
        protocol = listener.factory()
    except BaseException:
        transport.die()
        raise
    transport.start(protocol)
