"""The messages between a ZooKeeper client and the server that it is connected to."""

from enum import Enum
from typing import Any, NamedTuple

from ottla.metadata.zookeeper.znodes import Operation


class WatchKind(Enum):
    NODE = "node"
    CHILDREN = "children"


class Hello(NamedTuple):
    """The first message: the session to continue, or 0, and the last zxid that it has seen."""

    session_id: int
    last_zxid: int


class Welcome(NamedTuple):
    session_id: int
    zxid: int


class Expired(NamedTuple):
    """The session of the Hello does not exist any more."""


class Ping(NamedTuple):
    """Also its answer."""


class Goodbye(NamedTuple):
    """The sender closes this connection; its session goes on."""


class Get(NamedTuple):
    path: str
    watches: bool


class Children(NamedTuple):
    path: str
    watches: bool


class Multi(NamedTuple):
    operations: tuple[Operation, ...]


class Sync(NamedTuple):
    pass


class CloseSession(NamedTuple):
    pass


Request = Get | Children | Multi | Sync | CloseSession


class Call(NamedTuple):
    """A request and the number of its reply."""

    number: int
    request: Request


class Reply(NamedTuple):
    number: int
    result: Any
    zxid: int


class Event(NamedTuple):
    """A watch has fired."""

    kind: WatchKind
    path: str


ToServer = Hello | Ping | Goodbye | Call
ToClient = Welcome | Expired | Ping | Goodbye | Reply | Event
