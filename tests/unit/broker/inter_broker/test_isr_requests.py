"""ISR changes that a leader asks for, and their outcomes, known or not."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from ottla.broker.inter_broker.isr_requests import RETRY_S, IsrRequests
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.isr_changes import AskedIsr
from ottla.metadata.values import BrokerState, Incarnation
from ottla.metrics.meters import BrokerMeter
from ottla.replication.replica import Replica
from tests.sim.seams.loop import run
from tests.support.replication.partitions import ME, OTHER, Partitions
from tests.unit.replication.test_isr import broker

THIRD = Incarnation(3, 30)
TIMED_OUT = PeerError(ErrorCode.REQUEST_TIMED_OUT, "no answer")


class World:
    """A leader with a follower in the ISR and one outside of it; and the controller's answers."""

    def __init__(self) -> None:
        self.partitions = Partitions()
        for each in (ME, OTHER, THIRD):
            self.partitions.commit(broker(each, BrokerState.STARTING))
            self.partitions.commit(broker(each))
        self.replica: Replica = self.partitions.create(isr=(ME, OTHER), replicas=(1, 2, 3))
        self.meter = BrokerMeter()
        self.asked: list[AskedIsr] = []
        self.answers: list[ErrorCode | PeerError] = []
        self.requests = IsrRequests(
            self.partitions.replicas,
            self,  # type: ignore[arg-type]  # the only request that it makes
            lambda: self.partitions.image,
            lambda: 2_000,
            self.partitions.clock,
            self.meter,
        )

    async def alter_partitions(self, asked: Sequence[AskedIsr]) -> list[ErrorCode]:
        self.asked += asked
        await asyncio.sleep(0.01)
        answer = self.answers.pop(0)
        if isinstance(answer, PeerError):
            raise answer
        return [answer] * len(asked)

    def caught_up(self) -> None:
        """Everything is in sync, as far as the leader knows."""
        end_offset = self.replica.end_offset
        for follower in (OTHER, THIRD):
            self.replica.fetched_by(follower, end_offset, 0)


def with_world(story: Callable[[World], Coroutine[Any, Any, None]]) -> None:
    async def tell() -> None:
        world = World()
        loop = asyncio.get_running_loop()
        tasks = [
            loop.create_task(world.requests.run()),
            loop.create_task(world.requests.run_ticks()),
        ]
        try:
            await story(world)
            for task in tasks:
                assert not task.done(), task
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run(tell())


def test_a_follower_that_caught_up_is_asked_for_and_counts_at_once() -> None:
    async def story(world: World) -> None:
        world.answers = [ErrorCode.NONE]
        world.partitions.append(world.replica, b"a")
        world.caught_up()
        await asyncio.sleep(0.1)
        (asked,) = world.asked
        assert asked.isr == (ME, OTHER, THIRD)
        assert (asked.leader_epoch, asked.partition_epoch) == (0, 0)
        partition = world.replica.partition
        assert partition.maximal_isr == (ME, OTHER, THIRD)
        assert partition.isr == (ME, OTHER), "until the metadata log says so"
        world.partitions.append(world.replica, b"b")
        world.replica.fetched_by(OTHER, 2, 0)
        assert partition.high_watermark == 1, "the third one may be a member already"

    with_world(story)


@pytest.mark.parametrize(
    "unknown", [TIMED_OUT, ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_SERVER_ERROR]
)
def test_without_a_known_outcome_the_same_is_asked_again(unknown: Any) -> None:
    async def story(world: World) -> None:
        world.answers = [unknown, unknown, ErrorCode.NONE]
        world.caught_up()
        await asyncio.sleep(0.1)
        assert world.replica.partition.maximal_isr == (ME, OTHER, THIRD)
        # Meanwhile it would want another one.
        world.replica.partition.followers.pop(THIRD.broker_id)
        await asyncio.sleep(3 * RETRY_S)
        assert [each.isr for each in world.asked] == [(ME, OTHER, THIRD)] * 3

    with_world(story)


def test_a_newer_record_ends_the_question() -> None:
    async def story(world: World) -> None:
        world.answers = [TIMED_OUT]
        world.caught_up()
        await asyncio.sleep(0.1)
        world.partitions.change(world.replica, isr=(ME, OTHER, THIRD))
        await asyncio.sleep(3 * RETRY_S)
        assert len(world.asked) == 1
        assert world.replica.partition.asked_isr is None

    with_world(story)


def test_a_member_that_is_not_eligible_no_longer_counts_and_is_asked_for_later() -> None:
    async def story(world: World) -> None:
        world.answers = [ErrorCode.INELIGIBLE_REPLICA, ErrorCode.NONE]
        world.partitions.append(world.replica, b"a")
        world.caught_up()
        world.partitions.append(world.replica, b"b")
        world.replica.fetched_by(OTHER, 2, 0)
        await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert world.replica.partition.asked_isr is None
        assert world.replica.high_watermark == 2
        world.replica.fetched_by(THIRD, 2, 0)
        await asyncio.sleep(3 * RETRY_S)
        assert len(world.asked) == 2

    with_world(story)


def test_a_late_answer_does_not_touch_a_newer_question() -> None:
    async def story(world: World) -> None:
        world.answers = [ErrorCode.INELIGIBLE_REPLICA]
        world.caught_up()
        await asyncio.sleep(0.005)
        assert len(world.asked) == 1
        world.partitions.change(world.replica, min_isr=2)
        world.replica.partition.isr_asked((ME, OTHER, THIRD))
        await asyncio.sleep(0.1)
        assert world.replica.partition.asked_isr == (ME, OTHER, THIRD)

    with_world(story)


def test_a_follower_that_lags_leaves_after_the_lag_time() -> None:
    async def story(world: World) -> None:
        world.answers = [ErrorCode.NONE] * 3
        world.caught_up()
        await asyncio.sleep(0.1)
        world.partitions.change(world.replica, isr=(ME, OTHER, THIRD))
        world.partitions.append(world.replica, b"a")
        world.replica.fetched_by(OTHER, 1, 0)
        await asyncio.sleep(1.9)
        assert len(world.asked) == 1
        await asyncio.sleep(1.2)
        assert world.asked[1].isr == (ME, OTHER)
        assert (world.meter.isr_expands, world.meter.isr_shrinks) == (1, 1)

    with_world(story)


def test_a_broker_that_comes_up_is_considered_though_it_does_not_fetch_again() -> None:
    async def story(world: World) -> None:
        draining = broker(THIRD, BrokerState.DRAINING)
        world.partitions.commit(draining)
        world.caught_up()
        await asyncio.sleep(0.1)
        assert world.asked == []
        later = Incarnation(THIRD.broker_id, 31)
        world.answers = [ErrorCode.NONE]
        world.partitions.commit(broker(later, BrokerState.STARTING))
        world.replica.fetched_by(later, 0, 0)
        await asyncio.sleep(0.1)
        assert world.asked == []
        entry = world.partitions.commit(broker(later))
        world.requests.follow(world.partitions.image, entry)
        await asyncio.sleep(0.1)
        assert world.asked[0].isr == (ME, OTHER, later)

    with_world(story)


def test_all_partitions_that_wait_are_asked_for_together() -> None:
    async def story(world: World) -> None:
        others = [
            world.partitions.create(f"topic-{number}", isr=(ME, OTHER), replicas=(1, 2, 3))
            for number in range(3)
        ]
        world.answers = [ErrorCode.NONE]
        for replica in (world.replica, *others):
            replica.fetched_by(THIRD, 0, 0)
        await asyncio.sleep(0.1)
        assert len(world.asked) == 4
        assert world.answers == []

    with_world(story)
