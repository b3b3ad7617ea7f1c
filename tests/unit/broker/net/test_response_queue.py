"""Responses in the order of their requests, and the limits of those that wait."""

import asyncio

from ottla.broker.net.response_queue import (
    WAITING_PRODUCES_BYTES_MAX,
    WAITING_PRODUCES_MAX,
    PendingResponse,
    Promise,
    ResponseQueue,
)
from tests.sim.seams.loop import run


def pending(*, is_appended: bool = True, held_bytes: int = 100) -> PendingResponse:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    return PendingResponse(
        future, lambda _: [b"reply"], is_appended=is_appended, held_bytes=held_bytes
    )


def test_a_response_waits_for_those_before_it() -> None:
    async def story() -> None:
        queue = ResponseQueue()
        assert queue.pop_ready() is None
        first, second = pending(), pending()
        for each in (first, second, [b"third"]):
            queue.add(each)
        second.future.set_result(None)
        assert queue.pop_ready() is None
        first.future.set_result(None)
        assert [queue.pop_ready() for _ in range(4)] == [first, second, [b"third"], None]
        assert (len(queue.waiting), queue.held_bytes) == (0, 0)

    run(story())


def test_nothing_is_sent_after_a_response_that_was_cancelled() -> None:
    async def story() -> None:
        queue = ResponseQueue()
        first = pending()
        queue.add(first)
        queue.add([b"second"])
        first.future.cancel()
        assert queue.pop_ready() is None

    run(story())


def test_a_produce_is_taken_behind_appended_ones_only() -> None:
    async def story() -> None:
        queue = ResponseQueue()
        assert queue.takes_produce
        queue.add(pending())
        assert queue.takes_produce
        queue.add([b"refused"])
        assert queue.takes_produce
        queue.add(pending(is_appended=False))
        assert not queue.takes_produce

    run(story())


def test_the_number_of_waiting_responses_is_limited() -> None:
    async def story() -> None:
        queue = ResponseQueue()
        first = pending()
        queue.add(first)
        for _ in range(WAITING_PRODUCES_MAX - 1):
            assert queue.takes_produce
            queue.add(pending())
        assert not queue.takes_produce
        first.future.set_result(None)
        assert queue.pop_ready() is first
        assert queue.takes_produce

    run(story())


def test_the_memory_of_waiting_requests_and_responses_is_limited() -> None:
    async def story() -> None:
        for large in (pending(held_bytes=WAITING_PRODUCES_BYTES_MAX), None):
            queue = ResponseQueue()
            first = pending(held_bytes=0)
            queue.add(first)
            queue.add(large or [bytes(10), bytes(WAITING_PRODUCES_BYTES_MAX - 10)])
            assert queue.held_bytes == WAITING_PRODUCES_BYTES_MAX
            assert not queue.takes_produce
            assert len(queue.drop()) == (2 if large else 1)
            assert (len(queue.waiting), queue.held_bytes) == (0, 0)

    run(story())


def test_a_dropped_response_is_abandoned_in_its_own_way() -> None:
    async def story() -> None:
        cancelled: list[str] = []
        queue = ResponseQueue()
        shared = pending()._replace(cancel=lambda: cancelled.append("shared"))
        own = pending()
        for each in (shared, [b"ready"], own):
            queue.add(each)
        for dropped in queue.drop():
            dropped.abandon()
        assert cancelled == ["shared"]
        assert (shared.future.cancelled(), own.future.cancelled()) == (False, True)

    run(story())


def test_a_promise_that_is_kept_calls_back_at_once_and_is_not_kept_twice() -> None:
    called: list[object] = []
    promise = Promise()
    promise.add_done_callback(called.append)
    assert (promise.done(), promise.cancelled(), promise.response) == (False, False, None)
    promise.keep([b"reply"])
    assert called == [promise]
    assert (promise.done(), promise.cancelled(), promise.response) == (True, False, [b"reply"])
    promise.keep([b"another"])
    assert called == [promise]
    assert promise.response == [b"reply"]


def test_the_response_is_there_when_a_promise_calls_back() -> None:
    seen: list[object] = []
    promise = Promise()
    promise.add_done_callback(lambda kept: seen.append((kept.done(), kept.response)))
    promise.keep([b"reply"])
    assert seen == [(True, [b"reply"])]


def test_a_promise_that_is_cancelled_is_never_kept() -> None:
    called: list[object] = []
    promise = Promise()
    promise.add_done_callback(called.append)
    promise.cancel()
    assert (promise.done(), promise.cancelled()) == (True, True)
    promise.keep([b"reply"])
    assert (called, promise.response) == ([], None)


def test_a_promise_without_a_callback_may_be_kept() -> None:
    promise = Promise()
    promise.keep(None)
    assert (promise.done(), promise.cancelled(), promise.response) == (True, False, None)


def test_a_promise_has_its_place_in_the_order_of_responses() -> None:
    queue = ResponseQueue()
    promises = [Promise(), Promise(), Promise()]
    first, second, third = (
        PendingResponse(promise, lambda kept: kept.response) for promise in promises
    )
    for each in (first, second, third):
        queue.add(each)
    assert not queue.takes_produce
    promises[1].keep([b"second"])
    assert queue.pop_ready() is None
    promises[0].keep([b"first"])
    assert (queue.pop_ready(), queue.pop_ready()) == (first, second)
    assert second.finish(second.future) == [b"second"]
    third.abandon()
    assert promises[2].cancelled()
    assert queue.pop_ready() is None, "nothing is sent after a cancelled one"
