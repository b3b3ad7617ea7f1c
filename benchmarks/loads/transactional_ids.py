"""Starts a separate broker with many transactional ids: the time until all answer."""

import shutil
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks import measuring
from benchmarks.loads.asking import Asking
from benchmarks.loads.coordinator import (
    await_described,
    await_transaction_coordinator,
    describe,
)
from benchmarks.loads.restarts import START_S_MAX, await_serving, longest_answers
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Ran, Scope
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest

INIT_PRODUCER_ID_VERSION = 4
TRANSACTION_TIMEOUT_MS = 60_000
# While the next block of producer ids comes: COORDINATOR_LOAD_IN_PROGRESS.
TO_BE_RETRIED = {14}
INITIALISED_S_MAX = 300.0
CONNECTIONS = 8
IDS_ASKED_AT_ONCE = 1000


class StartWithTransactionalIds:
    """Producers initialise their transactional ids; then the broker is restarted.

    Memory is compared with that of a restart of the same broker without transactional ids.
    """

    def __init__(self, *, transactional_ids: int) -> None:
        self.transactional_ids = transactional_ids
        self._own: dict[str, Peer] = {}
        self._empty_mb: dict[str, float] = {}

    def prepare(self, peer: Peer, scope: Scope) -> None:
        own = peer.another(peer.directory.with_name(f"{peer.directory.name}-transactional-ids"))
        self._own[peer.name] = own
        names = self._names(scope)
        with own:
            await_transaction_coordinator(own)
        try:
            _, self._empty_mb[peer.name], _ = _start(own, names)
            initialise_all(own, names)
        finally:
            own.stop()

    def finish(self, peer: Peer) -> None:
        if own := self._own.pop(peer.name, None):
            own.stop()
            shutil.rmtree(own.directory, ignore_errors=True)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        own, names = self._own[peer.name], self._names(scope)
        try:
            answered_s, memory_mb, stall_s = _start(own, names)
            check_all(own, names)
        finally:
            own.stop()
        figures = {"answered_s": answered_s, "memory_mb": memory_mb}
        figures["growth_mb"] = memory_mb - self._empty_mb[peer.name]
        return Ran(figures=figures | {"stall_ms": stall_s * 1e3})

    def _names(self, scope: Scope) -> list[str]:
        count = scope.count(self.transactional_ids)
        return [f"transactional-{number:06d}" for number in range(count)]


def _start(peer: Peer, names: Sequence[str]) -> tuple[float, float, float]:
    """Seconds until all coordinators answer, memory in MB then, the longest answer in seconds."""
    began = time.monotonic()
    peer.start()
    await_serving(peer, began + START_S_MAX)
    with longest_answers(peer) as answers_s, Asking(peer) as asking:
        await_described(asking, names, began + START_S_MAX)
        answered_s = time.monotonic() - began
    return answered_s, measuring.memory_mb(peer.pid), max(answers_s)


def initialise_all(peer: Peer, names: Sequence[str]) -> None:
    """One InitProducerId for each id, on several connections: each has one request in progress."""
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        parts = [names[first::CONNECTIONS] for first in range(CONNECTIONS)]
        list(threads.map(lambda part: _initialise(peer, part), filter(None, parts)))


def _initialise(peer: Peer, names: Sequence[str]) -> None:
    deadline = time.monotonic() + INITIALISED_S_MAX
    left = [
        InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        for name in names
    ]
    with Asking(peer) as asking:
        while left:
            codes = [each.error_code for each in asking.ask_all(left, INIT_PRODUCER_ID_VERSION)]
            wrong = {code for code in codes if code and code not in TO_BE_RETRIED}
            if wrong or time.monotonic() > deadline:
                raise LoadFailed(f"transactional ids are refused: {wrong or 'for too long'}")
            left = [request for request, code in zip(left, codes, strict=True) if code]


def check_all(peer: Peer, names: Sequence[str]) -> None:
    """Checks that each transactional id is known."""
    with Asking(peer) as asking:
        for begin in range(0, len(names), IDS_ASKED_AT_ONCE):
            for found in describe(asking, names[begin : begin + IDS_ASKED_AT_ONCE]):
                if found.error_code:
                    raise LoadFailed(f"{found.transactional_id} is lost: {found.error_code}")
