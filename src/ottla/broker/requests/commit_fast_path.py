"""The fast path of OffsetCommit: decoded and encoded by native code, committed together.

Many members commit a few offsets each. The commits that arrive in one turn of the event loop are
appended as one batch.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.net.connection import Connection
from ottla.broker.net.response_queue import PendingResponse, ResponseParts
from ottla.broker.requests.gathering import GatheredOutcome, Gathering
from ottla.errors import PeerError
from ottla.native import commit as native_commit
from ottla.protocol.messages import APIS
from ottla.tuples import maker

if TYPE_CHECKING:
    from ottla.broker.handlers.offset_commit import CommitOutcome
    from ottla.broker.requests.services import Services

OFFSET_COMMIT_KEY = 8
OFFSET_COMMIT_NAME = APIS[OFFSET_COMMIT_KEY].name
# A full list is settled at once. Its frames are 4 MiB at most.
GATHERED_COMMITS_MAX = 1024


class GatheredCommit(NamedTuple):
    """A request, and the connection that waits for its response."""

    connection: Connection
    request: native_commit.Request


_gathered_commit = maker(GatheredCommit)


class CommitFastPath(Gathering[native_commit.Request, GatheredCommit]):
    """Handles the commits of all connections of a node."""

    def __init__(self, services: "Services", on_fault: Callable[[Exception], None]) -> None:
        super().__init__(
            services, on_fault, OFFSET_COMMIT_KEY, native_commit.read, GATHERED_COMMITS_MAX
        )

    def _entry(
        self,
        request: native_commit.Request,
        frame: memoryview,  # noqa: ARG002 - the decoded request does not refer to it
        connection: Connection,
        is_silent_only: bool,
    ) -> GatheredCommit | None:
        return None if is_silent_only else _gathered_commit((connection, request))

    def _handle_together(
        self, entries: list[GatheredCommit]
    ) -> list[tuple[Connection, GatheredOutcome]]:
        since_ns = self._since_ns
        joint = (self._handler or self._import()).handle_gathered(entries, self._services)
        outcomes = [self._outcome(each, since_ns) for each in joint]
        answered = sum([isinstance(outcome, bytearray) for outcome in outcomes])
        self._seconds.observe_many(self._elapsed_s(since_ns), answered)
        return list(zip([connection for connection, _ in entries], outcomes, strict=True))

    def _outcome(self, commit: "CommitOutcome", since_ns: int) -> bytearray | PendingResponse:
        committed = commit.committed
        if committed is None or committed.done():
            return self._answer(commit, committed)
        # Others wait for the same future: a lost connection must not cancel it.
        return PendingResponse(asyncio.shield(committed), partial(self._finish, commit, since_ns))

    def _finish(
        self, commit: "CommitOutcome", since_ns: int, committed: "asyncio.Future[object]"
    ) -> ResponseParts:
        self._seconds.observe(self._elapsed_s(since_ns))
        return [self._answer(commit, committed)]

    def _answer(
        self, commit: "CommitOutcome", committed: "asyncio.Future[object] | None"
    ) -> bytearray:
        codes: Sequence[int] = commit.codes
        error = None if committed is None else committed.exception()
        if isinstance(error, PeerError):
            self._services.metrics.request_refused(OFFSET_COMMIT_NAME, error.code.name)
            codes = [error.code] * len(codes)
        elif error is not None:
            raise error
        version, correlation_id, _, _, _, _, _, topics = commit.request
        throttle_time_ms = commit.session.quota.throttle_time_ms
        return native_commit.answer(version, correlation_id, topics, codes, throttle_time_ms)
