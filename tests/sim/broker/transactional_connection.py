"""How a transactional producer repeats its requests, and what becomes of them on the way.

A request may be stuck and arrive after the producer has repeated it or gone on without it. The
broker may still be busy with a request whose answer nobody awaits.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ottla.errors import ErrorCode
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.broker.transactional_history import Incarnation
from tests.sim.broker.transactional_route import Way
from tests.sim.broker.transactional_world import REFUSED_FOR_NOW, TransactionalWorld
from tests.sim.request_line import RequestLine
from tests.sim.seams.entropy import SimEntropy

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
        self._incarnation = incarnation
        self._entropy = entropy
        self._has_own_epochs = has_own_epochs
        self._route = world.route(host, incarnation.transactional_id)
        # Of the request that is under way.
        self._way: Way | None = None

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
                elif self._way is not None:
                    is_repeated, lost_in = True, self._way.life
                    self._route.drop(self._way)
                    self._route.refused(request)
                if self._crashes(crashes_before):
                    raise CrashedError(lost_in) from None
                if self._gives_up(request, error):
                    raise GivenUpError(lost_in) from None
            else:
                code = ErrorCode(code_of(response))
                if code not in self._world.retried:
                    return Answer(response, code, is_repeated, lost_in)
                is_repeated = is_repeated or code not in REFUSED_FOR_NOW
                self._route.refused(request)
            await self.pause()

    async def pause(self) -> None:
        await asyncio.sleep(self._entropy.between(1, 200) / 1e3)

    async def together(self, places: Sequence[TopicPartition]) -> Sequence[TopicPartition]:
        """Those of the partitions that one produce request may be about."""
        return await self._route.together(places)

    def refused(self, request: object) -> None:
        """The answer says that another broker may take a part of the request."""
        self._route.refused(request)

    def close(self) -> None:
        self._route.close()

    def _crashes(self, crashes_before: int) -> bool:
        """Whether the producer does not live to repeat its request."""
        if self._world.is_calm:
            return False
        return self._world.crashes > crashes_before or self._entropy.chance(0.05)

    def _gives_up(self, request: object, error: Exception) -> bool:
        if not isinstance(request, GIVEN_UP):
            return False
        if isinstance(error, _LateError):
            return self._entropy.chance(0.7) or not self._may_be_repeated(request)
        return self._entropy.chance(0.2)

    async def _ask_once(self, request: object, version: int) -> Any:
        self._way = None
        way = self._way = await self._route.way(request)
        line = way.line
        if self._world.is_calm:
            return await line.ask(request, version)
        if self._may_be_stuck(request) and self._entropy.chance(
            STUCK_RATES.get(type(request), 0.03)
        ):
            self._route.abandon(way)
            delay_s = self._entropy.between(1, 1_000) / 1e3
            begun = self._incarnation.transactions
            asyncio.get_running_loop().call_later(
                delay_s, self._send_late, line, request, version, begun
            )
            raise _LateError(way.life)
        reply = line.send(request, version)
        if self._entropy.chance(0.1 if isinstance(request, ProduceRequest) else 0.06):
            # The producer does not wait for the answer.
            await asyncio.sleep(self._entropy.pick((0.0, 0.001, 0.005, 0.05)))
            if self._is_harmless(request) and self._entropy.chance(0.7):
                self._route.abandon(way)
                raise _LateError(way.life)
            raise ConnectionError
        return await line.wait_for(reply)

    def _send_late(self, line: RequestLine, request: object, version: int, begun: int) -> None:
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
