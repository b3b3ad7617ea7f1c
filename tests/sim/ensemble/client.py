"""A simulated ZooKeeper client. All of it runs in the context in which it was made."""

import asyncio
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from enum import Enum
from typing import Any, NamedTuple, Protocol

from ottla.metadata.store import StoreClosed
from ottla.metadata.zookeeper.znodes import (
    NO_SESSION,
    ConnectionLost,
    Operation,
    Refused,
    Znode,
)
from tests.sim.ensemble.link import Pipe, SimLink
from tests.sim.ensemble.messages import (
    Call,
    Children,
    CloseSession,
    Event,
    Expired,
    Get,
    Goodbye,
    Hello,
    Multi,
    Ping,
    Reply,
    Request,
    Sync,
    ToClient,
    ToServer,
    WatchKind,
    Welcome,
)
from tests.sim.seams.entropy import SimEntropy

CLOSE_TIMEOUT_S = 1.0
RECONNECT_US_MAX = 200_000


class Servers(Protocol):
    session_timeout_s: float

    def open_connection(
        self, link: SimLink, context: Context, receive: Callable[[ToClient], None]
    ) -> Pipe[ToServer]: ...


class LostWrite(Enum):
    """How the connection breaks at a write: before the servers get it, or before their answer."""

    UNSENT = "unsent"
    UNANSWERED = "unanswered"


class _Connection:
    """The client's end of one connection."""

    def __init__(self, client: "SimZnodes") -> None:
        self._client = client
        self.is_welcome = False
        self.is_over = asyncio.Event()
        self.answered = asyncio.Event()
        self.pipe: Pipe[ToServer] | None = None
        self.heard_at = 0.0
        self.loses_reply: int | None = None

    def send(self, message: ToServer) -> None:
        if self.pipe is not None and not self.is_over.is_set():
            self.pipe.send(message)

    def receive(self, message: ToClient) -> None:
        if not self.is_over.is_set():
            self.heard_at = asyncio.get_running_loop().time()
            self._client.receive(self, message)

    def end(self) -> None:
        self.send(Goodbye())
        self.is_over.set()
        self.answered.set()


class _PendingCall(NamedTuple):
    request: Request
    future: "asyncio.Future[Any]"
    watch: asyncio.Event | None


class SimZnodes:
    """A `Znodes` over a link that can be cut.

    `session_expiries` counts the sessions that it has lost. `lost_writes` is the chance that the
    connection breaks at a write.
    """

    def __init__(self, servers: Servers, link: SimLink, entropy: SimEntropy, name: str) -> None:
        self.link = link
        self.lost_writes = 0.0
        self.lose_next_write: LostWrite | None = None
        self.session_expiries = 0
        self._servers = servers
        self._entropy = entropy
        self._context = copy_context()
        self._session_id = NO_SESSION
        self._last_zxid = 0
        self._connection: _Connection | None = None
        self._connected = asyncio.Event()
        self._is_open = True
        self._call_count = 0
        self._calls: dict[int, _PendingCall] = {}
        self._watches: dict[tuple[WatchKind, str], list[asyncio.Event]] = {}
        self._task = asyncio.get_running_loop().create_task(self._stay_connected(), name=name)

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        return int(self._servers.session_timeout_s * 1_000)

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

    async def get(self, path: str, watch: asyncio.Event | None = None) -> Znode | None:
        node: Znode | None = await self._call(Get(path, watch is not None), watch)
        return node

    async def children(self, path: str, watch: asyncio.Event | None = None) -> tuple[str, ...]:
        names: tuple[str, ...] = await self._call(Children(path, watch is not None), watch)
        return names

    async def multi(self, operations: Sequence[Operation]) -> None:
        refused: int | None = await self._call(Multi(tuple(operations)))
        if refused is not None:
            raise Refused(refused)

    async def sync(self) -> None:
        await self._call(Sync())

    async def close(self) -> None:
        if not self._is_open:
            return
        connection = self._connection
        closing = None
        if connection is not None and connection.is_welcome:
            closing = self._begin(connection, CloseSession())
        self._is_open = False
        self._end_calls(StoreClosed("the client was closed"), keep=closing)
        self._connected.set()
        if closing is not None:
            await asyncio.wait((closing,), timeout=CLOSE_TIMEOUT_S)
        self._task.cancel()
        self._end_calls(StoreClosed("the client was closed"))
        if connection is not None:
            connection.end()

    def kill(self) -> None:
        """The process of the client ends: the servers hear nothing, and no call returns."""
        self._task.cancel()
        if self._connection is not None:
            self._connection.is_over.set()

    def drop_connection(self) -> None:
        """The connection breaks; both ends notice."""
        if self._connection is not None:
            self._connection.end()

    # Calls

    async def _call(self, request: Request, watch: asyncio.Event | None = None) -> Any:
        while self._is_open and not self._connected.is_set():
            await self._connected.wait()
        connection = self._connection
        if not self._is_open or connection is None:
            raise StoreClosed("the client was closed")
        return await self._begin(connection, request, watch)

    def _begin(
        self, connection: _Connection, request: Request, watch: asyncio.Event | None = None
    ) -> "asyncio.Future[Any]":
        self._call_count += 1
        number = self._call_count
        future = asyncio.get_running_loop().create_future()
        # The error of a call whose caller was cancelled is nobody's.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._calls[number] = _PendingCall(request, future, watch)
        lost = self._lost_write() if isinstance(request, Multi) else None
        if lost is LostWrite.UNSENT:
            connection.end()
        elif lost is LostWrite.UNANSWERED:
            connection.loses_reply = number
        connection.send(Call(number, request))
        return future

    def _lost_write(self) -> LostWrite | None:
        lost, self.lose_next_write = self.lose_next_write, None
        if lost is None and self._entropy.chance(self.lost_writes):
            lost = self._entropy.pick((LostWrite.UNSENT, LostWrite.UNANSWERED))
        return lost

    def _end_calls(self, error: Exception, keep: "asyncio.Future[Any] | None" = None) -> None:
        calls, self._calls = self._calls, {}
        for number, call in calls.items():
            if call.future is keep:
                self._calls[number] = call
            elif not call.future.done():
                call.future.set_exception(error)
        watches, self._watches = self._watches, {}
        for events in watches.values():
            for event in events:
                event.set()

    # Messages

    def receive(self, connection: _Connection, message: ToClient) -> None:
        if isinstance(message, Welcome):
            self._session_id = message.session_id
            self._last_zxid = max(self._last_zxid, message.zxid)
            connection.is_welcome = True
            connection.answered.set()
            self._connection = connection
            self._connected.set()
        elif isinstance(message, Expired):
            # The transaction that begins the next session is later than all this one has read.
            self._session_id, self._last_zxid = NO_SESSION, 0
            self.session_expiries += 1
            connection.end()
        elif isinstance(message, Goodbye):
            connection.end()
        elif isinstance(message, Event):
            for event in self._watches.pop((message.kind, message.path), ()):
                event.set()
        elif isinstance(message, Reply):
            self._replied(connection, message)

    def _replied(self, connection: _Connection, reply: Reply) -> None:
        if reply.number == connection.loses_reply:
            connection.end()
            return
        self._last_zxid = max(self._last_zxid, reply.zxid)
        call = self._calls.pop(reply.number, None)
        if call is None:
            return
        if call.watch is not None and isinstance(call.request, Get | Children):
            kind = WatchKind.NODE if isinstance(call.request, Get) else WatchKind.CHILDREN
            events = self._watches.setdefault((kind, call.request.path), [])
            if call.watch not in events:
                events.append(call.watch)
        if not call.future.done():
            call.future.set_result(reply.result)

    # The connection

    async def _stay_connected(self) -> None:
        while True:
            connection = await self._connect()
            if connection.is_welcome:
                await self._keep_alive(connection)
                self._connected.clear()
                self._connection = None
                self._end_calls(ConnectionLost("the connection to the servers broke"))
            connection.end()
            await asyncio.sleep(self._entropy.between(100, RECONNECT_US_MAX) / 1e6)

    async def _connect(self) -> _Connection:
        """One attempt, with a random server."""
        connection = _Connection(self)
        connection.pipe = self._servers.open_connection(
            self.link, self._context, connection.receive
        )
        if self.link.connects:
            connection.send(Hello(self._session_id, self._last_zxid))
        try:
            async with asyncio.timeout(self._servers.session_timeout_s / 3):
                await connection.answered.wait()
        except TimeoutError:
            pass
        return connection

    async def _keep_alive(self, connection: _Connection) -> None:
        """Pings until the connection breaks, or nothing was heard for too long."""
        timeout_s = self._servers.session_timeout_s
        loop = asyncio.get_running_loop()
        while loop.time() - connection.heard_at <= timeout_s * 2 / 3:
            connection.send(Ping())
            try:
                async with asyncio.timeout(timeout_s / 3):
                    await connection.is_over.wait()
                    return
            except TimeoutError:
                continue
