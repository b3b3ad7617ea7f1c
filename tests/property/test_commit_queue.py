"""A commit queue settles each waiter once, in offset order, at the first move that reaches it."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.errors import ErrorCode, PeerError
from ottla.replication.append.commit_queue import CommitQueue, CommitWaiter, Settle

SHRUNK = PeerError(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, "shrunk")

STEPS = st.one_of(
    st.tuples(st.just("wait"), st.integers(1, 12)),
    st.tuples(st.just("leave"), st.integers(0, 30)),
    st.tuples(st.just("move"), st.integers(0, 4)),
    st.tuples(st.just("fail"), st.just(0)),
)


@given(st.lists(STEPS, max_size=60))
def test_each_waiter_is_settled_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    queue = CommitQueue()
    high_watermark = 0
    settled: list[tuple[int, PeerError | None]] = []
    # The numbers of those that wait, each with its offset.
    waiting: dict[int, int] = {}
    waiters: list[CommitWaiter] = []

    def settle_of(number: int) -> Settle:
        return lambda error: settled.append((number, error))

    for step, value in steps:
        expected: list[tuple[int, PeerError | None]] = []
        in_order = sorted(waiting, key=lambda number: (waiting[number], number))
        if step == "wait":
            waiting[len(waiters)] = high_watermark + value
            waiters.append(queue.wait(high_watermark + value, settle_of(len(waiters))))
        elif step == "leave" and value < len(waiters):
            queue.leave(waiters[value])
            waiting.pop(value, None)
        elif step == "move":
            high_watermark += value
            expected = [(each, None) for each in in_order if waiting[each] <= high_watermark]
            queue.moved(high_watermark)
        elif step == "fail":
            expected = [(each, SHRUNK) for each in in_order]
            queue.fail(SHRUNK)
        assert settled == expected
        settled.clear()
        for number, _ in expected:
            del waiting[number]
        assert len(queue) == len(waiting)
        assert len(queue.waiters) <= 2 * len(waiting) + 1
