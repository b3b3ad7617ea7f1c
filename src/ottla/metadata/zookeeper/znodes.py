"""The interface of a ZooKeeper client, as far as the metadata store needs one.

The client has one session at a time. When the session expires, the client begins a new one by
itself, and `session_id` changes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from ottla.errors import OttlaError

Found = TypeVar("Found")

ANY_VERSION = -1
# The owner of a node that is not ephemeral.
NO_SESSION = 0


class ConnectionLost(OttlaError):
    """The connection broke during the call. A write may or may not have been applied.

    Its outcome is settled, and seen by reads, once a later `sync` of this client returns.
    """


class Refused(OttlaError):
    """The operation at `index` could not be applied, and so none of the multi was."""

    def __init__(self, index: int) -> None:
        super().__init__(f"operation {index} was refused")
        self.index = index


class Znode(NamedTuple):
    """`version` counts the changes of its data. `owner` is the session of an ephemeral node."""

    data: bytes
    czxid: int
    version: int
    owner: int


class Create(NamedTuple):
    """Refused if the node exists. An ephemeral node lasts as long as the current session."""

    path: str
    data: bytes
    is_ephemeral: bool = False


class SetData(NamedTuple):
    """Refused if the node does not exist in this version."""

    path: str
    data: bytes
    version: int


class Delete(NamedTuple):
    """Refused if the node does not exist in this version."""

    path: str
    version: int


class Check(NamedTuple):
    """Refused if the node does not exist in this version."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check


class Znodes(Protocol):
    """A ZooKeeper client.

    A call without a connection waits for one; ConnectionLost is only for a connection that breaks
    during the call. Reads come from the server that the client is connected to, which may lag
    behind; for one client they never go backwards. A call raises StoreClosed once the client is
    closed, and a StorageError for any other failure that the servers report.

    The event of a watch is set when the node or the list of children changes, once, and also when
    the connection breaks, the session expires or the client is closed. One event can watch many
    nodes, and is kept only once per node.
    """

    @property
    def session_id(self) -> int:
        """The current session, as far as the client knows; NO_SESSION before the first one."""
        ...

    @property
    def session_timeout_ms(self) -> int:
        """The timeout of the current session, as the servers granted it; 0 before the first one."""
        ...

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now, as far as the client knows."""
        ...

    async def get(self, path: str, watch: asyncio.Event | None = None) -> Znode | None:
        """None if the node does not exist; the watch is then for its creation."""
        ...

    async def children(self, path: str, watch: asyncio.Event | None = None) -> tuple[str, ...]:
        """The names of the children, sorted. The watch is for the list, not for their data."""
        ...

    async def multi(self, operations: Sequence[Operation]) -> None:
        """Applies all operations or, if Refused, none."""
        ...

    async def sync(self) -> None:
        """Later reads of this client see every write that was completed before this call."""
        ...

    async def close(self) -> None:
        """Ends the session: its ephemeral nodes are deleted. Idempotent."""
        ...


async def patient(read: Callable[[], Awaitable[Found]]) -> Found:
    """Repeats the read until no connection breaks during it. The state may be stale."""
    while True:
        try:
            return await read()
        except ConnectionLost:
            continue


async def fresh(znodes: Znodes, read: Callable[[], Awaitable[Found]]) -> Found:
    """The same for a state with every write that was completed before the call.

    On return the current session is the one that read, so it can be compared with owners of nodes.
    """
    while True:
        session_id = znodes.session_id
        try:
            await znodes.sync()
            found = await read()
        except ConnectionLost:
            continue
        if znodes.session_id == session_id:
            return found
