"""The way of ordinary commits: read and answered natively, those of many members together.

Members of large groups commit all the time, each a little. What arrives in one turn of the loop is
written as one batch.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.net.connection import Connection, Later, Reply
from ottla.broker.requests.gathering import Gathering, Outcome
from ottla.errors import PeerError
from ottla.native import commit as native_commit
from ottla.protocol.messages import APIS

if TYPE_CHECKING:
    from ottla.broker.handlers.offset_commit import JointCommit
    from ottla.broker.requests.services import Services

OFFSET_COMMIT = 8
NAME = APIS[OFFSET_COMMIT].name
# As many are settled at once, whatever else there is: four MiB at most.
GATHERED_MAX = 1024


# The connection that waits for an answer, and its request.
Gathered = tuple[Connection, native_commit.Request]


class OrdinaryCommits(Gathering[native_commit.Request, Gathered]):
    """Handles them for all connections of a node."""

    def __init__(self, services: "Services", on_fault: Callable[[Exception], None]) -> None:
        super().__init__(services, on_fault, OFFSET_COMMIT, native_commit.read, GATHERED_MAX)

    def _entry(
        self,
        request: native_commit.Request,
        frame: memoryview,  # noqa: ARG002 - nothing of what was read refers to it
        connection: Connection,
        is_silent_only: bool,
    ) -> Gathered | None:
        return None if is_silent_only else (connection, request)

    def _handle_together(self, entries: list[Gathered]) -> list[tuple[Connection, Outcome]]:
        since_ns = self._since_ns
        joint = (self._handler or self._import()).handle_joint(entries, self._services)
        outcomes = [self._outcome(each, since_ns) for each in joint]
        answered = sum([isinstance(outcome, bytearray) for outcome in outcomes])
        self._seconds.observe_many(self._elapsed_s(since_ns), answered)
        return list(zip([connection for connection, _ in entries], outcomes, strict=True))

    def _outcome(self, commit: "JointCommit", since_ns: int) -> bytearray | Later:
        committed = commit.committed
        if committed is None or committed.done():
            return self._answer(commit, committed)
        # A client that goes must not take away what all others wait for.
        return Later(asyncio.shield(committed), partial(self._finish, commit, since_ns))

    def _finish(
        self, commit: "JointCommit", since_ns: int, committed: "asyncio.Future[object]"
    ) -> Reply:
        self._seconds.observe(self._elapsed_s(since_ns))
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
        version, correlation_id, _, _, _, _, _, topics = commit.request
        throttle_time_ms = commit.session.quota.throttle_time_ms
        return native_commit.answer(version, correlation_id, topics, codes, throttle_time_ms)
