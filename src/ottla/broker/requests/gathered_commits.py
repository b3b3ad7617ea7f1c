"""The way of ordinary commits: read and answered natively, those of many members together.

Members of large groups commit all the time, each a little. What arrives in one turn of the loop is
decided at the beginning of the next, written as one batch, and answered one right after another.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.net.connection import Connection, Later, Reply
from ottla.errors import PeerError
from ottla.native import commit as native_commit
from ottla.protocol.messages import APIS

if TYPE_CHECKING:
    from ottla.broker.handlers.offset_commit import JointCommit
    from ottla.broker.requests.services import Services

OFFSET_COMMIT = 8
NAME = APIS[OFFSET_COMMIT].name
# Of what is larger, reading and waking are a small part.
GATHERED_BYTES_MAX = 4 << 10
# As many are handled at once: what comes beyond them is handled by itself.
GATHERED_MAX = 1024


class OrdinaryCommits:
    """Handles them for all connections of a node. A connection has one gathered at most."""

    def __init__(self, services: "Services", on_fault: Callable[[Exception], None]) -> None:
        self._services = services
        self._on_fault = on_fault
        self._seconds = services.metrics.request(NAME).seconds
        self._steady_ns = services.clock.steady_ns
        self._handler: Any = None
        # Who waits for what, and when the first of them came.
        self._connections: list[Connection] = []
        self._requests: list[native_commit.Request] = []
        self._since_ns = 0

    def gather(self, frame: memoryview, connection: Connection) -> bool:
        """Keeps an ordinary commit; the connection is told by `settle`."""
        if len(frame) > GATHERED_BYTES_MAX or len(self._requests) == GATHERED_MAX:
            return False
        request = native_commit.read(frame)
        if request is None:
            return False
        if not self._requests:
            self._since_ns = self._steady_ns()
            asyncio.get_running_loop().call_soon(self.settle)
        self._connections.append(connection)
        self._requests.append(request)
        return True

    def settle(self) -> None:
        """Handles all that was gathered.

        Replies go out at the end, one right after another: a client that is woken by the first of
        them finds the others before it sleeps again.
        """
        connections, self._connections = self._connections, []
        requests, self._requests = self._requests, []
        if not requests:
            return
        since_ns = self._since_ns
        try:
            joint = (self._handler or self._import()).handle_joint(requests, self._services)
            outcomes = [self._outcome(each, since_ns) for each in joint]
            for connection, outcome in zip(connections, outcomes, strict=True):
                connection.settle(outcome)
            answered = sum(isinstance(outcome, bytearray) for outcome in outcomes)
            self._seconds.observe_many(self._seconds_since(since_ns), answered)
        except Exception as error:  # noqa: BLE001 - the loop would only log it
            self._on_fault(error)

    def _outcome(self, commit: "JointCommit", since_ns: int) -> bytearray | Later:
        committed = commit.committed
        if committed is None or committed.done():
            return self._answer(commit, committed)
        # A client that goes must not take away what all others wait for.
        return Later(asyncio.shield(committed), partial(self._finish, commit, since_ns))

    def _finish(
        self, commit: "JointCommit", since_ns: int, committed: "asyncio.Future[object]"
    ) -> Reply:
        self._seconds.observe(self._seconds_since(since_ns))
        return [self._answer(commit, committed)]

    def _answer(
        self, commit: "JointCommit", committed: "asyncio.Future[object] | None"
    ) -> bytearray:
        codes: Sequence[int] = commit.codes
        error = None if committed is None else committed.exception()
        if isinstance(error, PeerError):
            self._services.metrics.request_refused(NAME, error.code.name)
            codes = [error.code] * len(codes)
        elif error is not None:
            raise error
        request = commit.request
        return native_commit.answer(request[0], request[1], request[6], codes)

    def _seconds_since(self, since_ns: int) -> float:
        return (self._steady_ns() - since_ns) / 1e9

    def _import(self) -> Any:
        """As with every other handler, when it is first called."""
        from ottla.broker.handlers import offset_commit

        self._handler = offset_commit
        return offset_commit
