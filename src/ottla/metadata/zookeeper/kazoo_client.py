"""`Znodes` on kazoo, the ZooKeeper client for Python.

kazoo has a thread per client. All its callbacks pass through `call_soon_threadsafe`; the state of
this module belongs to the event loop. `docs/decisions/0024` says which habits of kazoo it hides.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Any

from kazoo.client import TransactionRequest
from kazoo.exceptions import (
    AuthFailedError,
    BadVersionError,
    ConnectionClosedError,
    ConnectionLoss,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    RequestTimeoutError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    SessionMovedError,
    ThrottledOpError,
)
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent

from ottla.errors import StorageError, StoreUnusable
from ottla.metadata.store import StoreClosed
from ottla.metadata.zookeeper.access import ZooKeeperAccess
from ottla.metadata.zookeeper.kazoo_connection import OneThreadClient
from ottla.metadata.zookeeper.znodes import (
    NO_SESSION,
    Check,
    ConnectionLost,
    Create,
    Delete,
    Operation,
    Refused,
    SetData,
    Znode,
)
from ottla.seams.threads import Threads

# A server closes the connection on a request above its jute.maxbuffer, by default 1 MiB less one
# byte, and that would look like an unknown outcome for ever.
REQUEST_BYTES_MAX = (1 << 20) - 1
# More than the fields around an operation's path and data, the ACL included.
OPERATION_BYTES = 100
# After this time a close does not wait for the answer of a server any more.
CLOSE_TIMEOUT_S = 2.0

# The request may have been applied, or it was not: a look after the next `sync` shows it.
_UNKNOWN_OUTCOMES = (
    ConnectionLoss,
    SessionExpiredError,
    SessionMovedError,
    OperationTimeoutError,
    RequestTimeoutError,
    ThrottledOpError,
)
# What a server says about the other operations of a multi that it refused.
_NOT_THE_REASON = (RolledBackError, RuntimeInconsistency)

Report = Callable[[str, Mapping[str, object]], None]


class _WatchKind(Enum):
    NODE = "node"
    CHILDREN = "children"


_FIRED = {
    EventType.CREATED: (_WatchKind.NODE,),
    EventType.CHANGED: (_WatchKind.NODE,),
    EventType.DELETED: (_WatchKind.NODE, _WatchKind.CHILDREN),
    EventType.CHILD: (_WatchKind.CHILDREN,),
}


class KazooZnodes:
    """One client. `report` is told about connections and sessions, for a log."""

    def __init__(
        self,
        access: ZooKeeperAccess,
        threads: Threads,
        report: Report = lambda _event, _fields: None,
    ) -> None:
        self._access = access
        self._threads = threads
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._session_id = NO_SESSION
        self._session_timeout_ms = 0
        self._is_open = True
        self._is_connected = False
        # The error of all calls once kazoo has given up.
        self._failure: StorageError | None = None
        # Set while there is a connection, and for good once there will be none.
        self._is_settled = asyncio.Event()
        self._calls: dict[asyncio.Future[Any], None] = {}
        self._watches: dict[tuple[_WatchKind, str], dict[asyncio.Event, None]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._client = OneThreadClient(access)
        self._client.add_listener(self._on_state)

    @classmethod
    async def connect(
        cls,
        access: ZooKeeperAccess,
        threads: Threads,
        report: Report = lambda _event, _fields: None,
    ) -> "KazooZnodes":
        """A client with a session, whose chroot exists. StoreUnusable within the time limit."""
        znodes = cls(access, threads, report)
        try:
            znodes.start()
            async with asyncio.timeout(access.connection_timeout_ms / 1000):
                await znodes._make_chroot()
        except TimeoutError:
            await znodes.close()
            raise znodes._unreachable() from None
        except BaseException:
            await znodes.close()
            raise
        return znodes

    def start(self) -> None:
        """Begins to connect; calls wait for the connection."""
        self._client.start_async()

    @property
    def session_id(self) -> int:
        return self._session_id

    @property
    def session_timeout_ms(self) -> int:
        """The timeout that the servers have granted, which may not be the one that was asked for.

        0 before the first session.
        """
        return self._session_timeout_ms

    @property
    def is_connected(self) -> bool:
        return self._is_connected

    async def get(self, path: str, watch: asyncio.Event | None = None) -> Znode | None:
        fired = self._watch(_WatchKind.NODE, path, watch)
        while True:
            try:
                content, stat = await self._call(path, self._client.get_async, fired)
            except NoNodeError:
                pass
            else:
                return Znode(content or b"", stat.czxid, stat.version, stat.ephemeralOwner)
            # A read of a node that does not exist leaves no watch.
            if watch is None or await self._call(path, self._client.exists_async, fired) is None:
                return None

    async def children(self, path: str, watch: asyncio.Event | None = None) -> tuple[str, ...]:
        fired = self._watch(_WatchKind.CHILDREN, path, watch)
        try:
            names = await self._call(path, self._client.get_children_async, fired)
        except NoNodeError:
            raise StorageError(f"{self._where(path)} does not exist") from None
        return tuple(sorted(names))

    async def multi(self, operations: Sequence[Operation]) -> None:
        self._check_size(operations)
        results = await self._call("", lambda _: self._transaction(operations).commit_async())
        for index, (operation, result) in enumerate(zip(operations, results, strict=True)):
            if not isinstance(result, Exception) or isinstance(result, _NOT_THE_REASON):
                continue
            is_orphan = isinstance(operation, Create) and isinstance(result, NoNodeError)
            if isinstance(result, NoNodeError | NodeExistsError | BadVersionError):
                if is_orphan:
                    raise StorageError(f"the parent of {self._where(operation.path)} was deleted")
                raise Refused(index)
            raise self._failed(operation.path, result)

    async def sync(self) -> None:
        await self._call("", lambda path: self._client.sync_async(path or "/"))

    async def close(self) -> None:
        if self._closing is None:
            self._is_open = False
            self._settle_all(StoreClosed("the ZooKeeper client was closed"))
            self._is_settled.set()
            self._closing = self._loop.create_task(self._stop(), name="close ZooKeeper client")
        await asyncio.shield(self._closing)

    # Calls

    async def _call(self, path: str, begin: Callable[..., Any], *arguments: Any) -> Any:
        """The result of a call of kazoo on this path. NoNodeError if the node does not exist."""
        # kazoo would keep a call without a connection, and send it after any length of time.
        while not self._is_settled.is_set():
            await self._is_settled.wait()
        if not self._is_open:
            raise StoreClosed("the ZooKeeper client was closed")
        if self._failure is not None:
            raise self._failure
        future: asyncio.Future[Any] = self._loop.create_future()
        # The error of a call whose caller was cancelled is nobody's.
        future.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._calls[future] = None
        result = begin(self._access.connect.chroot + path, *arguments)
        result.rawlink(partial(self._hand_over, self._settle, future))
        try:
            return await future
        except NoNodeError:
            raise
        except _UNKNOWN_OUTCOMES as error:
            raise ConnectionLost(f"the connection to ZooKeeper broke: {error!r}") from None
        except KazooException as error:
            raise self._failed(path, error) from error
        finally:
            self._calls.pop(future, None)

    def _transaction(self, operations: Sequence[Operation]) -> TransactionRequest:
        transaction = self._client.transaction()
        for operation in operations:
            path = self._access.connect.chroot + operation.path
            match operation:
                case Create():
                    transaction.create(path, operation.data, ephemeral=operation.is_ephemeral)
                case SetData():
                    transaction.set_data(path, operation.data, operation.version)
                case Delete():
                    transaction.delete(path, operation.version)
                case Check():
                    transaction.check(path, operation.version)
        return transaction

    def _check_size(self, operations: Sequence[Operation]) -> None:
        """StorageError for a request that the servers might not accept."""
        chroot = self._access.connect.chroot
        size_bytes = OPERATION_BYTES
        for operation in operations:
            size_bytes += OPERATION_BYTES + len(chroot) + len(operation.path)
            if isinstance(operation, Create | SetData):
                size_bytes += len(operation.data)
        if size_bytes > REQUEST_BYTES_MAX:
            raise StorageError(
                f"a write of {size_bytes} bytes to {self._where(operations[0].path)}: ZooKeeper"
                f" accepts at most {REQUEST_BYTES_MAX}"
            )

    def _settle(self, future: "asyncio.Future[Any]", result: Any) -> None:
        if future.done():
            return
        if result.exception is not None:
            future.set_exception(result.exception)
        else:
            future.set_result(result.value)

    def _settle_all(self, error: Exception) -> None:
        """Ends all calls and fires all watches."""
        for future in self._calls:
            if not future.done():
                future.set_exception(error)
        watches, self._watches = self._watches, {}
        for events in watches.values():
            for event in events:
                event.set()

    # Watches

    def _watch(
        self, kind: _WatchKind, path: str, event: asyncio.Event | None
    ) -> Callable[[WatchedEvent], None] | None:
        """Kept from before the call on, so that no change between reply and watch is missed."""
        if event is None:
            return None
        key = (kind, self._access.connect.chroot + path)
        self._watches.setdefault(key, {})[event] = None
        # The same function each time: kazoo keeps it once per node.
        return self._on_watch

    def _on_watch(self, event: WatchedEvent) -> None:
        """In kazoo's thread."""
        self._hand_over(self._fire, event)

    def _fire(self, event: WatchedEvent) -> None:
        for kind in _FIRED.get(event.type, ()):
            for watch in self._watches.pop((kind, event.path), ()):
                watch.set()

    # Connections and sessions

    def _on_state(self, state: str) -> None:
        """In kazoo's thread. The session is of this moment; the loop may see a later one."""
        client = self._client
        if state == KazooState.CONNECTED:
            session_id, _ = client.client_id
            self._hand_over(self._on_connected, session_id, client.session_timeout_ms)
        else:
            self._hand_over(self._on_disconnected, client.client_state, client.last_warning)

    def _on_connected(self, session_id: int, session_timeout_ms: int) -> None:
        is_new = session_id != self._session_id
        self._session_id, self._session_timeout_ms = session_id, session_timeout_ms
        if not self._is_open:
            return
        self._is_connected = True
        self._is_settled.set()
        self._report(
            "ZooKeeper session" if is_new else "ZooKeeper connected",
            {"session_id": f"{session_id:#x}", "session_timeout_ms": session_timeout_ms},
        )

    def _on_disconnected(self, state: str, why: str) -> None:
        """Also ends calls that kazoo has not sent yet: kazoo drops some of them in silence."""
        was_connected, self._is_connected = self._is_connected, False
        if not self._is_open:
            return
        self._settle_all(ConnectionLost(f"the connection to ZooKeeper broke: {why}"))
        if state in (KeeperState.AUTH_FAILED, KeeperState.CLOSED):
            # kazoo does not try again.
            self._failure = self._given_up(state, why)
            self._is_settled.set()
            return
        self._is_settled.clear()
        if state == KeeperState.EXPIRED_SESSION:
            self._report("ZooKeeper session expired", {"session_id": f"{self._session_id:#x}"})
        elif was_connected:
            self._report("ZooKeeper connection lost", {"error": why})

    async def _stop(self) -> None:
        # Blocks until the thread has ended.
        stopping = self._loop.create_task(self._threads.run(self._client.stop), name="stop kazoo")
        done, _ = await asyncio.wait((stopping,), timeout=CLOSE_TIMEOUT_S)
        if not done:
            self._client.break_connection()
        await stopping
        self._client.close()

    async def _make_chroot(self) -> None:
        """Creates the nodes of the chroot that do not exist."""
        names = self._access.connect.chroot.split("/")[1:]
        paths = ["/" + "/".join(names[: length + 1]) for length in range(len(names))]
        while True:
            try:
                for path in paths or ["/"]:
                    await self._make_node(path)
            except ConnectionLost:
                continue
            return

    async def _make_node(self, path: str) -> None:
        """`path` is whole."""
        client = self._client
        try:
            if await self._call("", lambda _: client.exists_async(path)) is not None:
                return
        except StoreUnusable as error:
            # It exists, and this broker may not read it. What is below may be another matter.
            if isinstance(error.__cause__, NoAuthError):
                return
            raise
        try:
            await self._call("", lambda _: client.create_async(path))
        except StorageError as error:
            if isinstance(error.__cause__, NodeExistsError):
                return
            if not isinstance(error.__cause__, NoAuthError):
                raise
            raise StoreUnusable(
                f"the chroot {self._access.connect.chroot} cannot be created in ZooKeeper at"
                f" {self._servers}",
                why=f"the ACL of the node above {path} does not allow it",
                advice=f"create {path} there and let the broker create nodes in it, or choose"
                " another chroot in zookeeper.connect",
            ) from error

    def _hand_over(self, run: Callable[..., None], *arguments: Any) -> None:
        """Runs a method on the event loop. Called by kazoo's thread and by the loop's."""
        try:
            self._loop.call_soon_threadsafe(run, *arguments)
        except RuntimeError:
            # The loop was closed without us; there is nobody to tell.
            return

    # Errors

    @property
    def _servers(self) -> str:
        return ",".join(map(str, self._access.connect.servers))

    def _where(self, path: str) -> str:
        return f"{self._access.connect.chroot}{path or '/'} in ZooKeeper at {self._servers}"

    def _failed(self, path: str, error: Exception) -> StorageError:
        identity = "ottla.zookeeper.auth.digest.file, or of its client certificate"
        if isinstance(error, NoAuthError):
            failure: StorageError = StoreUnusable(
                f"ZooKeeper at {self._servers} denies access to"
                f" {self._access.connect.chroot}{path or '/'}",
                why="the ACL of the node does not allow it to this broker's identity",
                advice=f"start the broker with the identity that created the cluster: that of"
                f" {identity}",
            )
        elif isinstance(error, InvalidACLError):
            failure = StoreUnusable(
                f"ZooKeeper at {self._servers} knows no identity of this broker, and so it cannot"
                " create nodes for itself alone",
                advice=f"give it one, that of {identity}; or set zookeeper.set.acl=false",
            )
        elif isinstance(error, AuthFailedError | ConnectionClosedError):
            failure = self._failure or StorageError(str(error))
        else:
            reason = str(error) or type(error).__name__
            failure = StorageError(f"{self._where(path)}: {reason}")
        failure.__cause__ = error
        return failure

    def _given_up(self, state: str, why: str) -> StorageError:
        if state == KeeperState.AUTH_FAILED:
            return StoreUnusable(
                f"ZooKeeper at {self._servers} does not accept this broker's identity",
                why=why,
                advice="check ottla.zookeeper.auth.digest.file, and that the servers allow the"
                " digest scheme",
            )
        return StorageError(f"the client of ZooKeeper at {self._servers} has failed: {why}")

    def _unreachable(self) -> StoreUnusable:
        seconds = self._access.connection_timeout_ms / 1000
        return StoreUnusable(
            f"no ZooKeeper server at {self._servers} has answered within {seconds:g} s",
            why=self._client.last_warning or None,
            advice="start ZooKeeper, or name its servers with --zookeeper HOST:PORT[,HOST:PORT…]",
            is_unreachable=True,
        )
