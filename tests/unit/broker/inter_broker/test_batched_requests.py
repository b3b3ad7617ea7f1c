"""Requests to other brokers in batches: order, limits, failures, callers that give up."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from ottla.broker.inter_broker import batched_requests
from ottla.broker.inter_broker.batched_requests import BatchedRequests
from ottla.client.errors import ConnectionLost
from ottla.errors import ErrorCode, PeerError
from tests.sim.seams.loop import run


class Stage:
    """Brokers that answer `item * 10` when they may, or fail."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, list[int]]] = []
        self.may_answer = asyncio.Event()
        self.failure: Exception | None = None
        self.tasks: list[asyncio.Task[Any]] = []
        self.requests = BatchedRequests[int, int]("test", self._send, lambda item: item, self.spawn)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        self.tasks.append(asyncio.create_task(work, name=name))

    async def _send(self, broker_id: int, items: Sequence[int]) -> list[int]:
        self.sent.append((broker_id, list(items)))
        await self.may_answer.wait()
        if self.failure is not None:
            raise self.failure
        return [item * 10 for item in items]

    def ask(self, *items: int, broker_id: int = 1) -> list["asyncio.Task[int]"]:
        return [asyncio.create_task(self.requests.ask(broker_id, item)) for item in items]


def tell(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    async def begin() -> None:
        await story(Stage())

    run(begin())


def test_all_that_comes_while_a_request_is_in_flight_shares_the_next_one() -> None:
    async def story(stage: Stage) -> None:
        first = stage.ask(1)
        await asyncio.sleep(0.1)
        others = stage.ask(2, 3, 4)
        await asyncio.sleep(0.1)
        assert stage.sent == [(1, [1])]
        stage.may_answer.set()
        assert await asyncio.gather(*first, *others) == [10, 20, 30, 40]
        assert stage.sent == [(1, [1]), (1, [2, 3, 4])]

    tell(story)


def test_brokers_do_not_wait_for_each_other() -> None:
    async def story(stage: Stage) -> None:
        stage.ask(1), stage.ask(2, broker_id=2)
        await asyncio.sleep(0.1)
        assert stage.sent == [(1, [1]), (2, [2])]
        stage.may_answer.set()
        await asyncio.gather(*stage.tasks)

    tell(story)


def test_a_request_is_bounded_by_its_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_requests, "REQUEST_WEIGHT_MAX", 10)

    async def story(stage: Stage) -> None:
        stage.may_answer.set()
        # A single item is sent whatever its weight is.
        asked = stage.ask(1, 4, 6, 1, 50, 2)
        assert await asyncio.gather(*asked) == [10, 40, 60, 10, 500, 20]
        assert [items for _, items in stage.sent] == [[1, 4], [6, 1], [50], [2]]

    tell(story)


@pytest.mark.parametrize(
    "failure", [PeerError(ErrorCode.BROKER_NOT_AVAILABLE, "gone"), ConnectionLost("lost")]
)
def test_a_failed_request_fails_its_items_only(failure: Exception) -> None:
    async def story(stage: Stage) -> None:
        failed = stage.ask(1, 2)
        stage.failure = failure
        stage.may_answer.set()
        await asyncio.wait(failed)
        assert [type(each.exception()) for each in failed] == [type(failure)] * 2
        stage.failure = None
        assert await stage.ask(3)[0] == 30

    tell(story)


def test_what_nobody_waits_for_any_more_is_not_sent() -> None:
    async def story(stage: Stage) -> None:
        first, given_up, last = stage.ask(1, 2, 3)
        await asyncio.sleep(0)
        # The batch of the first turn is not made yet.
        given_up.cancel()
        await asyncio.sleep(0.1)
        stage.may_answer.set()
        assert await asyncio.gather(first, last) == [10, 30]
        assert [items for _, items in stage.sent] == [[1, 3]]

    tell(story)


def test_items_beyond_the_limit_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batched_requests, "WAITING_MAX", 2)

    async def story(stage: Stage) -> None:
        in_flight = stage.ask(1)
        await asyncio.sleep(0.1)
        waiting = stage.ask(2, 3)
        await asyncio.sleep(0.1)
        with pytest.raises(PeerError) as refused:
            await stage.requests.ask(1, 4)
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        stage.may_answer.set()
        assert await asyncio.gather(*in_flight, *waiting) == [10, 20, 30]

    tell(story)


def test_a_broker_that_stops_ends_all_waits() -> None:
    async def story(stage: Stage) -> None:
        asked = stage.ask(1)
        await asyncio.sleep(0.1)
        asked += stage.ask(2)
        await asyncio.sleep(0.1)
        stage.tasks[0].cancel()
        await asyncio.wait(asked)
        assert all(each.cancelled() for each in asked)

    tell(story)
