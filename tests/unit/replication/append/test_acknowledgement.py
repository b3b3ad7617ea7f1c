"""Waiting for the high watermark: what acks=all means."""

import asyncio
from functools import partial
from typing import Any

import pytest

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.values import Incarnation
from ottla.replication.append.acknowledgement import CommitWait, Unacknowledged, until_committed
from ottla.replication.replica import Replica
from tests.sim.seams.loop import run
from tests.support.replication.partitions import ME, OTHER, Partitions


def commit(replica: Replica, offset: int) -> None:
    """The follower has fetched everything before the offset."""
    replica.fetched_by(OTHER, offset, 0)


def codes(errors: list[PeerError | None]) -> list[ErrorCode]:
    return [ErrorCode.NONE if error is None else error.code for error in errors]


def test_alone_in_sync_an_append_is_committed_at_once() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create()
        append = Unacknowledged(replica, partitions.append(replica))
        assert codes(await until_committed([append], 0)) == [ErrorCode.NONE]
        assert asyncio.get_running_loop().time() == 0

    run(story())


def test_with_others_in_sync_each_waits_for_its_own_partition() -> None:
    async def story() -> None:
        partitions = Partitions()
        first = partitions.create("first", isr=(ME, OTHER))
        second = partitions.create("second", isr=(ME, OTHER))
        appends = [Unacknowledged(each, partitions.append(each)) for each in (first, second)]
        loop = asyncio.get_running_loop()
        loop.call_later(0.1, commit, first, 1)
        loop.call_later(0.3, commit, second, 1)
        assert codes(await until_committed(appends, 5_000)) == [ErrorCode.NONE] * 2
        assert round(loop.time(), 3) == 0.3
        assert (len(first.commits), len(second.commits)) == (0, 0)

    run(story())


def test_what_is_not_committed_in_time_is_told_so_and_the_rest_is_not() -> None:
    async def story() -> None:
        partitions = Partitions()
        slow = partitions.create("slow", isr=(ME, OTHER))
        quick = partitions.create("quick")
        appends = [Unacknowledged(each, partitions.append(each)) for each in (slow, quick)]
        errors = await until_committed(appends, 250)
        assert codes(errors) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]
        assert round(asyncio.get_running_loop().time(), 3) == 0.25

    run(story())


def test_who_loses_its_partition_does_not_wait_for_what_it_will_never_learn() -> None:
    async def story() -> None:
        partitions = Partitions()
        deleted = partitions.create("deleted", isr=(ME, OTHER))
        append = Unacknowledged(deleted, partitions.append(deleted))
        asyncio.get_running_loop().call_later(0.1, partitions.delete, deleted)
        errors = await until_committed([append], 5_000)
        assert codes(errors) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert round(asyncio.get_running_loop().time(), 3) == 0.1

    run(story())


def test_a_batch_of_an_epoch_that_ended_in_between_may_be_gone() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create()
        append = Unacknowledged(replica, partitions.append(replica))
        partitions.change(replica, leader=None, isr=())
        partitions.change(replica, leader=ME, isr=(ME,))
        assert codes(await until_committed([append], 100)) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    run(story())


def test_too_few_in_sync_after_the_append_is_told_as_such() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER), min_isr=2)
        append = Unacknowledged(replica, partitions.append(replica))
        partitions.change(replica, isr=(ME,))
        errors = await until_committed([append], 5_000)
        assert codes(errors) == [ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND]

    run(story())


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"isr": (ME,)}, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        ({"leader": OTHER}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ({"leader": None, "isr": ()}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_change_of_the_partition_ends_the_wait_at_once(
    change: dict[str, Any], expected: ErrorCode
) -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER), min_isr=2)
        append = Unacknowledged(replica, partitions.append(replica))
        asyncio.get_running_loop().call_later(0.1, lambda: partitions.change(replica, **change))
        assert codes(await until_committed([append], 5_000)) == [expected]
        assert round(asyncio.get_running_loop().time(), 3) == 0.1

    run(story())


def test_a_new_epoch_of_the_same_leader_ends_the_wait() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER))
        wait = CommitWait([Unacknowledged(replica, partitions.append(replica))], 5_000)
        # It registers again, and leads on under its new broker epoch.
        again = Incarnation(ME.broker_id, ME.broker_epoch + 1)
        partitions.replicas.me.incarnation = again
        partitions.change(replica, leader=again, isr=(again, OTHER))
        assert (replica.partition.is_leader, replica.partition.leader_epoch) == (True, 1)
        assert wait.future.done()
        assert codes(wait.errors) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]

    run(story())


def test_a_lost_session_ends_the_wait() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER))
        wait = CommitWait([Unacknowledged(replica, partitions.append(replica))], 5_000)
        partitions.replicas.lose_session(ME.broker_epoch)
        assert codes(wait.errors) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
        assert wait.future.done()

    run(story())


def test_an_isr_that_shrinks_but_is_large_enough_commits() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER), min_isr=1)
        wait = CommitWait([Unacknowledged(replica, partitions.append(replica))], 5_000)
        partitions.change(replica, isr=(ME,))
        assert (wait.future.done(), codes(wait.errors)) == (True, [ErrorCode.NONE])

    run(story())


def test_the_deadline_is_one_for_all_partitions_of_a_request() -> None:
    async def story() -> None:
        partitions = Partitions()
        replicas = [partitions.create(f"t{number}", isr=(ME, OTHER)) for number in range(20)]
        appends = [Unacknowledged(each, partitions.append(each)) for each in replicas]
        loop = asyncio.get_running_loop()
        timers: list[float] = []
        call_later = loop.call_later

        def counted(delay: float, *rest: Any) -> asyncio.TimerHandle:
            timers.append(delay)
            return call_later(delay, *rest)

        loop.call_later = counted  # type: ignore[assignment, method-assign]
        call_later(0.1, commit, replicas[7], 1)
        errors = await until_committed(appends, 250)
        assert timers == [0.25]
        late = [number for number, error in enumerate(errors) if error is not None]
        assert late == [number for number in range(20) if number != 7]
        assert [len(each.commits.waiters) for each in replicas] == [0] * 20

    run(story())


def test_a_hundred_producers_cost_one_wake_up_each() -> None:
    """Each of them appends and waits; then the high watermark moves a hundred times."""
    producers = 100

    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER))
        settled: list[int] = []
        waits = []
        for number in range(producers):
            wait = CommitWait([Unacknowledged(replica, partitions.append(replica))], 30_000)
            wait.future.add_done_callback(lambda _, number=number: settled.append(number))
            waits.append(wait)
        calls = 0
        settle = CommitWait._settle

        def counted(wait: CommitWait, number: int, error: PeerError | None) -> None:
            nonlocal calls
            calls += 1
            settle(wait, number, error)

        for waiter in replica.commits.waiters:
            bound: Any = waiter.settle
            waiter.settle = partial(counted, bound.func.__self__, *bound.args)
        for offset in range(1, producers + 1):
            commit(replica, offset)
            assert calls == offset
            await asyncio.sleep(0)
            assert settled == list(range(offset))
        assert calls == producers
        assert not replica.commits.waiters

    run(story())


def test_who_is_cancelled_waits_no_longer() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER))
        append = Unacknowledged(replica, partitions.append(replica))
        task = asyncio.ensure_future(until_committed([append], 5_000))
        await asyncio.sleep(0.1)
        assert len(replica.commits) == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert len(replica.commits) == 0
        assert timers_left() == 0

    run(story())


def test_a_shared_wait_ends_when_the_last_request_is_cancelled() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER))
        wait = CommitWait([Unacknowledged(replica, partitions.append(replica))], 5_000)
        wait.sharing += 1
        wait.cancel()
        assert len(replica.commits) == 1
        wait.cancel()
        assert len(replica.commits) == 0
        assert timers_left() == 0

    run(story())


def test_a_wait_that_is_over_leaves_no_timer() -> None:
    async def story() -> None:
        partitions = Partitions()
        replica = partitions.create(isr=(ME, OTHER))
        first, second = (
            CommitWait([Unacknowledged(replica, partitions.append(replica))], 60_000)
            for _ in range(2)
        )
        commit(replica, 1)
        assert (first.future.done(), second.future.done(), timers_left()) == (True, False, 1)
        commit(replica, 2)
        assert timers_left() == 0

    run(story())


def timers_left() -> int:
    loop: Any = asyncio.get_running_loop()
    return sum(not each.cancelled() for each in loop._scheduled)
