"""Waiting for the high watermark: what acks=all means."""

import asyncio

from ottla.errors import ErrorCode, PeerError
from ottla.replication.append.acknowledgement import Unacknowledged, until_committed
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
