"""How a transactional producer repeats its requests, and what becomes of them on the way.

A request may be stuck and arrive after the producer has repeated it or gone on without it. The
broker may still be busy with a request whose answer nobody awaits.
"""

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.sim.broker.line import Line
from tests.sim.broker.transactional_history import Incarnation
from tests.sim.broker.transactional_world import TransactionalWorld
from tests.sim.seams.entropy import SimEntropy

# Nothing has happened; the same request may succeed later.
REFUSED_FOR_NOW = frozenset(
    {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
RETRIED = REFUSED_FOR_NOW | {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.KAFKA_STORAGE_ERROR,
}
# A transaction is aborted rather than that these are repeated for ever.
GIVEN_UP = (ProduceRequest, TxnOffsetCommitRequest)
# How many of the requests are on the way for long.
STUCK_RATES: dict[type, float] = {ProduceRequest: 0.06, EndTxnRequest: 0.15}


class CrashedError(Exception):
    """The producer is no more; nobody ends its transaction."""

    def __init__(self, lost_in: int = 0) -> None:
        super().__init__()
        self.lost_in = lost_in


class GivenUpError(Exception):
    """The producer has waited long enough. The request may still arrive."""

    def __init__(self, lost_in: int) -> None:
        super().__init__()
        self.lost_in = lost_in


class Answer(NamedTuple):
    """`is_repeated`: an earlier request may have had its effect. `lost_in`: the broker's last life
    in which a request got no answer, or 0."""

    response: Any
    code: ErrorCode
    is_repeated: bool
    lost_in: int


class _LateError(ConnectionError):
    """There is no answer, and the request may arrive at any time in this life of the broker."""

    def __init__(self, life: int) -> None:
        super().__init__()
        self.life = life


class ProducerConnection:
    """One connection after another. With `has_own_epochs` each transaction has its own epoch.

    A producer without them has one epoch for many transactions: a late request of it could change
    the next one, or end it. Sequences protect its batches. All else goes on time.
    """

    def __init__(
        self,
        world: TransactionalWorld,
        host: str,
        incarnation: Incarnation,
        entropy: SimEntropy,
        *,
        has_own_epochs: bool,
    ) -> None:
        self._world = world
        self._host = host
        self._incarnation = incarnation
        self._entropy = entropy
        self._has_own_epochs = has_own_epochs
        self._line: Line | None = None
        # Those on which requests may still be under way.
        self._abandoned: list[Line] = []

    async def ask(self, request: object, version: int, code_of: Callable[[Any], int]) -> Answer:
        """The final answer. CrashedError if the producer does not live to see it, GivenUpError if
        it takes too long."""
        is_repeated, lost_in = False, 0
        crashes_before = self._world.crashes
        while True:
            try:
                response = await self._ask_once(request, version)
            except (OSError, TimeoutError) as error:
                self._world.history.counts["lost answers"] += 1
                if isinstance(error, _LateError):
                    is_repeated, lost_in = True, error.life
                elif self._line is not None:
                    is_repeated, lost_in = True, self._line.life
                self._close_line()
                if self._crashes(crashes_before):
                    raise CrashedError(lost_in) from None
                if self._gives_up(request, error):
                    raise GivenUpError(lost_in) from None
            else:
                code = ErrorCode(code_of(response))
                if code not in RETRIED:
                    return Answer(response, code, is_repeated, lost_in)
                is_repeated = is_repeated or code not in REFUSED_FOR_NOW
            await self.pause()

    async def pause(self) -> None:
        await asyncio.sleep(self._entropy.between(1, 200) / 1e3)

    def close(self) -> None:
        self._close_line()
        for line in self._abandoned:
            line.close()

    def _crashes(self, crashes_before: int) -> bool:
        """Whether the producer does not live to repeat its request."""
        if self._world.base.is_calm:
            return False
        return self._world.crashes > crashes_before or self._entropy.chance(0.05)

    def _gives_up(self, request: object, error: Exception) -> bool:
        if not isinstance(request, GIVEN_UP):
            return False
        if isinstance(error, _LateError):
            return self._entropy.chance(0.7) or not self._may_be_repeated(request)
        return self._entropy.chance(0.2)

    async def _ask_once(self, request: object, version: int) -> Any:
        if self._line is None:
            self._line = await Line.open(self._world.base.machine, self._host)
        line = self._line
        if self._world.base.is_calm:
            return await line.ask(request, version)
        if self._may_be_stuck(request) and self._entropy.chance(
            STUCK_RATES.get(type(request), 0.03)
        ):
            self._abandon_line(line)
            delay_s = self._entropy.between(1, 1_000) / 1e3
            begun = self._incarnation.transactions
            asyncio.get_running_loop().call_later(
                delay_s, self._send_late, line, request, version, begun
            )
            raise _LateError(line.life)
        reply = line.send(request, version)
        if self._entropy.chance(0.1 if isinstance(request, ProduceRequest) else 0.06):
            # The producer does not wait for the answer.
            await asyncio.sleep(self._entropy.pick((0.0, 0.001, 0.005, 0.05)))
            if self._is_harmless(request) and self._entropy.chance(0.7):
                self._abandon_line(line)
                raise _LateError(line.life)
            raise ConnectionError
        return await line.wait_for(reply)

    def _send_late(self, line: Line, request: object, version: int, begun: int) -> None:
        """A request that was stuck on its way arrives, if its connection is still there.

        `begun` are the transactions that its producer had begun when it sent it.
        """
        try:
            line.send(request, version)
        except ConnectionError:
            return
        if isinstance(request, EndTxnRequest) and self._incarnation.transactions > begun:
            self._world.history.counts["ends that arrive after the next begin"] += 1

    def _may_be_stuck(self, request: object) -> bool:
        """Whether the request may arrive long after it was sent."""
        return self._may_be_repeated(request) and not isinstance(request, InitProducerIdRequest)

    def _may_be_repeated(self, request: object) -> bool:
        """Whether a request that was repeated may arrive in the next transaction."""
        return self._has_own_epochs or isinstance(request, ProduceRequest)

    def _is_harmless(self, request: object) -> bool:
        """Whether its answer may be left alone: it is repeated without harm, or is given up."""
        return self._may_be_repeated(request) or isinstance(request, GIVEN_UP)

    def _abandon_line(self, line: Line) -> None:
        self._abandoned.append(line)
        self._line = None

    def _close_line(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None
