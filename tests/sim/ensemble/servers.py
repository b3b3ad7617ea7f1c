"""The servers of a simulated ZooKeeper: one order of transactions, followers that lag, sessions.

Nothing here runs in the context of a client: the servers go on while a client is paused or killed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from dataclasses import dataclass, field

from ottla.metadata.zookeeper.store import ZooKeeperStore
from tests.sim.ensemble.client import SimZnodes
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
from tests.sim.ensemble.tree import Transaction, ZnodeTree
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.trace import Trace

COMMIT_US_MAX = 5_000
# A new leader counts from a multiple of this, as in ZooKeeper.
ZXIDS_PER_LEADER = 1 << 32


@dataclass
class Server:
    """One server. `applied` counts the committed transactions that its tree has."""

    number: int
    lag_us_max: int
    tree: ZnodeTree = field(default_factory=ZnodeTree)
    applied: int = 0
    applies_at: float = 0.0
    connections: "dict[int, ServerConnection]" = field(default_factory=dict)


@dataclass
class Session:
    """`connection` is the one that may write: the last one that continued the session."""

    session_id: int
    deadline: float
    connection: int
    is_ending: bool = False


class ServerConnection:
    """The server's end of a connection. Requests are processed one after another."""

    def __init__(self, ensemble: "SimEnsemble", number: int, server: Server) -> None:
        self._ensemble = ensemble
        self.number = number
        self.server = server
        self.session_id = 0
        self.to_client: Pipe[ToClient] | None = None
        self._is_open = True
        self._calls: deque[Call] = deque()
        self._is_busy = False
        self._watches: dict[tuple[WatchKind, str], None] = {}
        self._applied_waiters: list[tuple[int, Callable[[], None]]] = []

    def receive(self, message: ToServer) -> None:
        if not self._is_open:
            return
        if isinstance(message, Goodbye):
            self._forget()
            return
        if isinstance(message, Hello):
            self._ensemble.greet(self, message)
            return
        self._ensemble.touch(self.session_id)
        if isinstance(message, Ping):
            self.send(Ping())
        else:
            self._calls.append(message)
            self._process()

    def send(self, message: ToClient) -> None:
        if self._is_open and self.to_client is not None:
            self.to_client.send(message)

    def close(self) -> None:
        self.send(Goodbye())
        self._forget()

    def when_applied(self, zxid: int, then: Callable[[], None]) -> None:
        """Calls `then` once this connection's server has applied this transaction."""
        self._applied_waiters.append((zxid, then))
        self.check_applied()

    def check_applied(self) -> None:
        due = [then for zxid, then in self._applied_waiters if zxid <= self.server.tree.zxid]
        self._applied_waiters = [
            waiter for waiter in self._applied_waiters if waiter[0] > self.server.tree.zxid
        ]
        for then in due:
            if self._is_open:
                then()

    def changed(self, path: str) -> None:
        """Sends the watches of a node that has changed."""
        parent = path.rpartition("/")[0]
        for watch in ((WatchKind.NODE, path), (WatchKind.CHILDREN, parent)):
            if watch in self._watches:
                del self._watches[watch]
                self.send(Event(*watch))

    def _process(self) -> None:
        while self._calls and not self._is_busy and self._is_open:
            number, request = self._calls.popleft()
            if isinstance(request, Get | Children):
                self._answer(number, self._read(request))
            else:
                self._is_busy = True
                self._ensemble.forward(self, number, request)

    def finish(self, number: int, result: object) -> None:
        """A request that went to the leader has its result."""
        self._answer(number, result)
        self._is_busy = False
        self._process()

    def _read(self, request: Get | Children) -> object:
        tree = self.server.tree
        is_get = isinstance(request, Get)
        if request.watches:
            self._watches[(WatchKind.NODE if is_get else WatchKind.CHILDREN, request.path)] = None
        return tree.nodes.get(request.path) if is_get else tree.children(request.path)

    def _answer(self, number: int, result: object) -> None:
        self.send(Reply(number, result, self.server.tree.zxid))

    def _forget(self) -> None:
        self._is_open = False
        self.server.connections.pop(self.number, None)


class SimEnsemble:
    """Servers, one of them the leader, and the sessions of all clients.

    It belongs to no client: make it outside of their contexts.
    """

    def __init__(
        self,
        entropy: SimEntropy | int = 0,
        *,
        servers: int = 3,
        session_timeout_s: float = 6.0,
        lag_us_max: int = 20_000,
    ) -> None:
        self.entropy = SimEntropy(entropy) if isinstance(entropy, int) else entropy
        self.session_timeout_s = session_timeout_s
        self.trace = Trace()
        self.servers = [Server(number, lag_us_max) for number in range(servers)]
        self.sessions: dict[int, Session] = {}
        self.log: list[Transaction] = []
        self._leader: Server | None = self.servers[0]
        # Void what an earlier leader has begun.
        self._term = 0
        self._proposed = ZnodeTree()
        self._pending: deque[Transaction] = deque()
        self._commits_at = 0.0
        # Sessions whose first transaction is not committed yet.
        self._beginning: dict[int, Session] = {}
        self._connections = 0
        self._clients = 0
        self._context: Context = copy_context()

    # For brokers

    def link(self) -> SimLink:
        """The network of one machine."""
        self._clients += 1
        return SimLink(self.entropy.fork(f"link {self._clients}"))

    def client(self, link: SimLink | None = None) -> SimZnodes:
        """A client that belongs to the caller's context."""
        self._clients += 1
        name = f"client {self._clients}"
        return SimZnodes(
            self, link if link is not None else self.link(), self.entropy.fork(name), name
        )

    def connect(self, link: SimLink | None = None) -> ZooKeeperStore:
        return ZooKeeperStore(self.client(link))

    def open_connection(
        self, link: SimLink, context: Context, receive: Callable[[ToClient], None]
    ) -> Pipe[ToServer]:
        """Connects a client to a random server. `receive` gets its messages, in `context`."""
        self._connections += 1
        server = self.entropy.pick(self.servers)
        connection = ServerConnection(self, self._connections, server)
        server.connections[connection.number] = connection
        connection.to_client = Pipe(link, to_servers=False, context=context, receive=receive)
        return Pipe(link, to_servers=True, context=self._context, receive=connection.receive)

    # Faults

    def change_leader(self, down_s: float = 1.0) -> None:
        """The leader is lost. Writes that it had not committed are lost, or some of them kept."""
        self._leader = None
        self._term += 1
        for _ in range(self.entropy.between(0, len(self._pending))):
            self._append(self._pending.popleft())
        self._pending.clear()
        self._note("leader lost")
        for server in self.servers:
            for connection in list(server.connections.values()):
                connection.close()
        self._later(down_s, self._elect, self._term)

    def expire(self, client: SimZnodes) -> None:
        """The leader ends the session of a client, without waiting for its timeout."""
        session = self.sessions.get(client.session_id)
        if session is not None:
            self._end(session)

    # Sessions

    def touch(self, session_id: int) -> None:
        session = self.sessions.get(session_id)
        if session is not None:
            session.deadline = self._now() + self.session_timeout_s

    def greet(self, connection: ServerConnection, hello: Hello) -> None:
        """The first message of a connection. A server that lags behind the client refuses it."""
        if self._leader is None or connection.server.tree.zxid < hello.last_zxid:
            connection.close()
        elif hello.session_id == 0:
            zxid = self._propose(0, begins_session=True, connection=connection.number)
            connection.when_applied(zxid, lambda: self._welcome(connection, zxid))
        else:
            self._later(self._hop_s(), self._continue, connection, hello.session_id)

    def _continue(self, connection: ServerConnection, session_id: int) -> None:
        """Moves the session to this connection: writes of the previous one are void from now on."""
        session = self.sessions.get(session_id)
        if self._leader is None:
            connection.close()
        elif session is None:
            connection.send(Expired())
            connection.close()
        elif session.is_ending:
            connection.close()
        else:
            session.connection = connection.number
            self.touch(session_id)
            self._welcome(connection, session_id)

    def _welcome(self, connection: ServerConnection, session_id: int) -> None:
        connection.session_id = session_id
        connection.send(Welcome(session_id, connection.server.tree.zxid))

    def _watch_session(self, session: Session) -> None:
        """Ends a session at its deadline; without a leader nobody does."""
        if self.sessions.get(session.session_id) is not session or session.is_ending:
            return
        now = self._now()
        if self._leader is None:
            self._later(self.session_timeout_s, self._watch_session, session)
        elif now < session.deadline:
            self._later(session.deadline - now, self._watch_session, session)
        else:
            self._note(f"session {session.session_id} expired")
            self._end(session)

    def _end(self, session: Session) -> int:
        session.is_ending = True
        return self._propose(session.session_id, ends_session=True)

    # The leader

    def forward(self, connection: ServerConnection, number: int, request: Request) -> None:
        """A server sends a request to the leader."""
        self._later(self._hop_s(), self._lead, self._term, connection, number, request)

    def _lead(self, term: int, connection: ServerConnection, number: int, request: Request) -> None:
        if self._leader is None or term != self._term:
            return
        session = self.sessions.get(connection.session_id)
        if session is None or session.is_ending or session.connection != connection.number:
            connection.close()
            return
        result: object = None
        if isinstance(request, Sync):
            zxid = self._proposed.zxid
        elif isinstance(request, CloseSession):
            zxid = self._end(session)
        elif isinstance(request, Multi):
            result = self._proposed.refused(request.operations)
            zxid = self._propose(session.session_id, operations=request.operations, refused=result)
        else:
            raise TypeError(f"{request} is not for the leader")
        connection.when_applied(zxid, lambda: connection.finish(number, result))

    def _propose(self, session_id: int, *, connection: int = 0, **fields: object) -> int:
        zxid = self._proposed.zxid + 1
        begins = bool(fields.get("begins_session"))
        # A session is named by the transaction that began it.
        named = zxid if begins else session_id
        transaction = Transaction(zxid, named, **fields)  # type: ignore[arg-type]
        if begins:
            deadline = self._now() + self.session_timeout_s
            self._beginning[named] = Session(named, deadline, connection)
        self._proposed.apply(transaction)
        self._pending.append(transaction)
        self._commits_at = max(
            self._commits_at, self._now() + self.entropy.between(50, COMMIT_US_MAX) / 1e6
        )
        self._later(self._commits_at - self._now(), self._commit, self._term)
        return zxid

    def _commit(self, term: int) -> None:
        if term == self._term:
            self._append(self._pending.popleft())

    def _append(self, transaction: Transaction) -> None:
        """Commits: from now on no change of the leader loses it."""
        self.log.append(transaction)
        self._note(repr(transaction))
        if transaction.begins_session:
            session = self._beginning.pop(transaction.session_id)
            self.sessions[session.session_id] = session
            self._watch_session(session)
        if transaction.ends_session:
            self.sessions.pop(transaction.session_id, None)
        for server in self.servers:
            lag_us = 0 if server is self._leader else self.entropy.between(0, server.lag_us_max)
            server.applies_at = max(server.applies_at, self._now() + lag_us / 1e6)
            self._later(server.applies_at - self._now(), self._apply, server, len(self.log))

    def _apply(self, server: Server, count: int) -> None:
        while server.applied < count:
            transaction = self.log[server.applied]
            server.applied += 1
            for path in server.tree.apply(transaction):
                for connection in list(server.connections.values()):
                    connection.changed(path)
            for connection in list(server.connections.values()):
                connection.check_applied()

    def _elect(self, term: int) -> None:
        if term != self._term:
            return
        leader = self.entropy.pick(self.servers)
        self._apply(leader, len(self.log))
        self._leader = leader
        self._beginning.clear()
        self._proposed = leader.tree.copy()
        self._proposed.zxid = (leader.tree.zxid // ZXIDS_PER_LEADER + 1) * ZXIDS_PER_LEADER
        self._note(f"server {leader.number} leads")
        for session in list(self.sessions.values()):
            session.is_ending = False
            session.deadline = self._now() + self.session_timeout_s
            self._watch_session(session)
        # Its first transaction, so that a server that lags can be told from one that does not.
        self._propose(0)

    # Time

    def _hop_s(self) -> float:
        return self.entropy.between(50, 2_000) / 1e6

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _later(self, delay_s: float, then: Callable[..., None], *args: object) -> None:
        asyncio.get_running_loop().call_later(max(delay_s, 0.0), then, *args, context=self._context)

    def _note(self, event: str) -> None:
        self.trace.fold(f"{self._now():.6f} {event}")
