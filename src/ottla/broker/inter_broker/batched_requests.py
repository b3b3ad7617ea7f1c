"""Batches requests to other brokers: while one is in flight, all others wait for the next one."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from ottla.client.errors import ClientError
from ottla.errors import ErrorCode, PeerError

# Items that wait for one broker.
WAITING_MAX = 10_000
# A request of this weight is far below the limits of size and of array elements.
REQUEST_WEIGHT_MAX = 2_000

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")


class _Waiting(NamedTuple, Generic[ItemT, AnswerT]):
    item: ItemT
    answer: "asyncio.Future[AnswerT]"


class _Line(Generic[ItemT, AnswerT]):
    """The items that wait for one broker."""

    __slots__ = ("is_sending", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[_Waiting[ItemT, AnswerT]] = deque()
        self.is_sending = False


class BatchedRequests(Generic[ItemT, AnswerT]):
    """`send` sends items to a broker as one request, and returns one answer for each, in order.

    `weight` estimates the number of array elements of an item in the request.
    """

    def __init__(
        self,
        name: str,
        send: Callable[[int, Sequence[ItemT]], Awaitable[Sequence[AnswerT]]],
        weight: Callable[[ItemT], int],
        spawn: Callable[[Coroutine[Any, Any, Any], str], object],
    ) -> None:
        self._name = name
        self._send = send
        self._weight = weight
        self._spawn = spawn
        self._lines: dict[int, _Line[ItemT, AnswerT]] = {}

    async def ask(self, broker_id: int, item: ItemT) -> AnswerT:
        """The broker's answer. PeerError or ClientError if its request fails, or too many wait."""
        line = self._lines.get(broker_id)
        if line is None:
            line = self._lines[broker_id] = _Line()
        if len(line.waiting) >= WAITING_MAX:
            raise PeerError(
                ErrorCode.REQUEST_TIMED_OUT, f"{WAITING_MAX} wait for broker {broker_id}."
            )
        answer: asyncio.Future[AnswerT] = asyncio.get_running_loop().create_future()
        line.waiting.append(_Waiting(item, answer))
        if not line.is_sending:
            line.is_sending = True
            self._spawn(self._send_all(broker_id, line), f"{self._name} to broker {broker_id}")
        return await answer

    async def _send_all(self, broker_id: int, line: _Line[ItemT, AnswerT]) -> None:
        """Sends until nothing waits."""
        batch: list[_Waiting[ItemT, AnswerT]] = []
        try:
            while batch := self._next_batch(line):
                try:
                    answers = await self._send(broker_id, [each.item for each in batch])
                except (PeerError, ClientError) as error:
                    for each in batch:
                        _refuse(each.answer, error)
                else:
                    for each, answer in zip(batch, answers, strict=True):
                        if not each.answer.done():
                            each.answer.set_result(answer)
        finally:
            # After a fault of our own, or when the broker stops, nobody else would end them.
            line.is_sending = False
            for each in (*batch, *line.waiting):
                each.answer.cancel()
            line.waiting.clear()

    def _next_batch(self, line: _Line[ItemT, AnswerT]) -> list[_Waiting[ItemT, AnswerT]]:
        """The first items that still have a caller, as many as fit a request."""
        batch: list[_Waiting[ItemT, AnswerT]] = []
        weight = 0
        while line.waiting:
            first = line.waiting[0]
            if not first.answer.done():
                weight += self._weight(first.item)
                if batch and weight > REQUEST_WEIGHT_MAX:
                    break
                batch.append(first)
            line.waiting.popleft()
        return batch


def _refuse(answer: "asyncio.Future[Any]", error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)
