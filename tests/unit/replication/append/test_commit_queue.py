"""The commit queue of one partition."""

from collections.abc import Callable

from ottla.errors import ErrorCode, PeerError
from ottla.replication.append.commit_queue import CommitQueue, CommitWaiter, Settle

LOST = PeerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "lost")


class Settled:
    """Notes the waiters that were settled, by name."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.errors: list[PeerError | None] = []

    def by(self, name: str) -> Settle:
        def settle(error: PeerError | None) -> None:
            self.names.append(name)
            self.errors.append(error)

        return settle


def queued(settled: Settled, *offsets: int) -> tuple[CommitQueue, list[CommitWaiter]]:
    queue = CommitQueue()
    return queue, [queue.wait(offset, settled.by(str(offset))) for offset in offsets]


def test_a_move_settles_the_waiters_that_it_reaches_and_no_other() -> None:
    settled = Settled()
    queue, _ = queued(settled, 1, 2, 4, 7)
    queue.moved(3)
    assert (settled.names, len(queue)) == (["1", "2"], 2)
    queue.moved(3)
    assert settled.names == ["1", "2"]
    queue.moved(4)
    assert settled.names == ["1", "2", "4"]
    queue.moved(100)
    assert settled.names == ["1", "2", "4", "7"]
    assert settled.errors == [None] * 4
    assert not queue.waiters


def test_waiters_are_settled_in_offset_order_whatever_the_order_of_arrival() -> None:
    """A repeated batch waits for the offset of its first append."""
    settled = Settled()
    queue, _ = queued(settled, 3, 9, 5, 1, 9, 4)
    queue.wait(5, settled.by("5 again"))
    queue.moved(5)
    assert settled.names == ["1", "3", "4", "5", "5 again"]
    queue.moved(9)
    assert settled.names[5:] == ["9", "9"]


def test_a_waiter_that_leaves_is_not_settled_and_takes_no_room() -> None:
    settled = Settled()
    queue, waiters = queued(settled, 1, 2, 3, 4)
    queue.leave(waiters[1])
    queue.leave(waiters[1])
    assert len(queue) == 3
    queue.leave(waiters[3])
    queue.leave(waiters[2])
    assert (len(queue), len(queue.waiters)) == (1, 1)
    queue.moved(10)
    assert (settled.names, len(queue)) == (["1"], 0)
    queue.leave(waiters[0])
    assert len(queue) == 0


def test_waiters_that_left_are_not_counted_once_the_high_watermark_has_passed_them() -> None:
    settled = Settled()
    queue, waiters = queued(settled, 1, 2, 3, 4)
    queue.leave(waiters[0])
    queue.moved(2)
    assert len(queue) == 2
    queue.leave(waiters[2])
    assert len(queue) == 1
    queue.moved(4)
    assert settled.names == ["2", "4"]


def test_the_memory_of_waiters_that_time_out_is_bounded() -> None:
    queue = CommitQueue()
    largest = 0
    for offset in range(1, 10_000):
        queue.leave(queue.wait(offset, lambda _: None))
        largest = max(largest, len(queue.waiters))
    assert largest <= 2


def test_all_are_settled_once_when_leadership_is_lost() -> None:
    settled = Settled()
    queue, waiters = queued(settled, 1, 2, 3)
    queue.leave(waiters[1])
    queue.fail(LOST)
    assert (settled.names, settled.errors, len(queue)) == (["1", "3"], [LOST, LOST], 0)
    queue.moved(10)
    queue.fail(LOST)
    assert settled.names == ["1", "3"]
    queue.leave(waiters[0])
    assert len(queue) == 0


def test_a_waiter_may_wait_again_when_it_is_settled() -> None:
    queue = CommitQueue()
    found: list[PeerError | None] = []

    def again(error: PeerError | None) -> None:
        found.append(error)
        if len(found) < 3:
            queue.wait(len(found) + 1, again)

    queue.wait(1, again)
    queue.fail(LOST)
    assert (found, len(queue)) == ([LOST], 1)
    queue.moved(2)
    assert (found, len(queue)) == ([LOST, None], 1)
    queue.moved(3)
    assert (found, len(queue)) == ([LOST, None, None], 0)


def test_a_waiter_may_leave_while_another_is_settled() -> None:
    for act in (lambda queue: queue.moved(5), lambda queue: queue.fail(LOST)):
        _leave_within(act)


def _leave_within(act: Callable[[CommitQueue], None]) -> None:
    settled = Settled()
    queue, waiters = queued(settled, 2, 3, 9)

    def leave_all(_error: PeerError | None) -> None:
        for waiter in waiters:
            queue.leave(waiter)

    queue.wait(1, leave_all)
    act(queue)
    queue.moved(10)
    assert len(queue) == 0
    assert len(queue.waiters) == 0
    # A failure reaches those who leave within it: it was decided for all of them.
    assert settled.names in ([], ["2", "3", "9"])
