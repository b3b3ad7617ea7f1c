"""A member of a classic group: join, assignment, heartbeat, commit, leave."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.consumer.membership import MemberOptions, Membership
from ottla.client.errors import Refused
from ottla.errors import ErrorCode
from ottla.protocol.consumer_protocol import (
    decode_partitions,
    encode_partitions,
    encode_subscription,
)
from ottla.protocol.messages import (
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    sync_group,
)
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run
from tests.support.client.fake_cluster import PORT, FakeBroker, FakeCluster

ORDERS = [TopicPartition("orders", number) for number in range(3)]


class Coordinator:
    """Answers with the codes that a test puts into its lists, in order; then without errors."""

    def __init__(self, broker: FakeBroker) -> None:
        self.joins: list[join_group.JoinGroupResponse] = []
        self.codes: dict[str, list[ErrorCode]] = {"sync": [], "heartbeat": [], "commit": []}
        self.asked_for = broker.asked_for
        broker.answers |= {
            "FindCoordinator": lambda request, version: find_coordinator.FindCoordinatorResponse(
                node_id=1, host="b1", port=PORT
            ),
            "JoinGroup": lambda request, version: self.joins.pop(0) if self.joins else joined(),
            "SyncGroup": self._sync,
            "Heartbeat": lambda request, version: heartbeat.HeartbeatResponse(
                error_code=self._code("heartbeat")
            ),
            "LeaveGroup": lambda request, version: leave_group.LeaveGroupResponse(error_code=0),
            "OffsetCommit": self._commit,
        }

    def _code(self, name: str) -> ErrorCode:
        return self.codes[name].pop(0) if self.codes[name] else ErrorCode.NONE

    def _sync(self, request: sync_group.SyncGroupRequest, version: int) -> Any:
        code = self._code("sync")
        assignment = b"" if code else encode_partitions(ORDERS[:1])
        return sync_group.SyncGroupResponse(error_code=code, assignment=assignment)

    def _commit(self, request: offset_commit.OffsetCommitRequest, version: int) -> Any:
        (topic,) = request.topics
        results = tuple(
            offset_commit.PartitionResult(
                partition_index=each.partition_index, error_code=self._code("commit")
            )
            for each in topic.partitions
        )
        return offset_commit.OffsetCommitResponse(
            topics=(offset_commit.TopicResult(name=topic.name, partitions=results),)
        )


def joined(**fields: Any) -> join_group.JoinGroupResponse:
    usual: dict[str, Any] = {
        "error_code": 0,
        "generation_id": 4,
        "protocol_name": "range",
        "leader": "another",
        "member_id": "me",
        "members": (),
    }
    return join_group.JoinGroupResponse(**usual | fields)


def refused(code: ErrorCode, member_id: str = "") -> join_group.JoinGroupResponse:
    return joined(error_code=code, member_id=member_id, leader="", generation_id=-1)


def with_member(story: Callable[[Coordinator, Membership], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with FakeCluster() as cluster, cluster.router() as router:
            cluster.leaders = {"orders": [1, 1, 1]}
            coordinator = Coordinator(cluster.brokers[1])
            await story(coordinator, Membership(router, "g", ["orders"], MemberOptions()))

    run(tell())


def test_a_new_member_joins_again_with_its_new_id() -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        coordinator.joins = [refused(ErrorCode.MEMBER_ID_REQUIRED, "me"), joined()]
        assert await member.join() == ORDERS[:1]
        asked = [request for _, request in coordinator.asked_for("JoinGroup")]
        assert [request.member_id for request in asked] == ["", "me"]
        assert asked[0].protocols[0].metadata == encode_subscription(["orders"])
        ((_, sync),) = coordinator.asked_for("SyncGroup")
        assert (sync.generation_id, sync.member_id, sync.assignments) == (4, "me", ())

    with_member(story)


def test_a_join_waits_longer_than_the_request_timeout() -> None:
    async def slowly(response: Any) -> Any:
        await asyncio.sleep(25)
        return response

    async def story() -> None:
        async with (
            FakeCluster() as cluster,
            cluster.router(request_timeout_ms=1_000, default_api_timeout_ms=2_000) as router,
        ):
            broker = cluster.brokers[1]
            coordinator = Coordinator(broker)
            join, sync = broker.answers["JoinGroup"], broker.answers["SyncGroup"]
            broker.answers["JoinGroup"] = lambda *asked: slowly(join(*asked))
            broker.answers["SyncGroup"] = lambda *asked: slowly(sync(*asked))
            member = Membership(router, "g", ["orders"], MemberOptions(rebalance_timeout_ms=60_000))
            assert await member.join() == ORDERS[:1]
            assert len(coordinator.asked_for("JoinGroup")) == 1

    run(story())


def test_the_leader_assigns_the_partitions_of_all() -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        members = tuple(
            join_group.Member(member_id=name, metadata=encode_subscription(["orders"]))
            for name in ("me", "other")
        )
        coordinator.joins = [joined(leader="me", members=members)]
        await member.join()
        ((_, sync),) = coordinator.asked_for("SyncGroup")
        assigned = {each.member_id: decode_partitions(each.assignment) for each in sync.assignments}
        assert assigned == {"me": ORDERS[:2], "other": ORDERS[2:]}

    with_member(story)


def test_a_leader_with_skip_assignment_sends_no_assignment() -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        coordinator.joins = [joined(leader="me", skip_assignment=True)]
        await member.join()
        ((_, sync),) = coordinator.asked_for("SyncGroup")
        assert sync.assignments == ()

    with_member(story)


@pytest.mark.parametrize(
    ("code", "comes_back_as"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, "me"),
        (ErrorCode.ILLEGAL_GENERATION, "me"),
        (ErrorCode.UNKNOWN_MEMBER_ID, ""),
    ],
)
def test_a_generation_that_is_over_before_the_sync_is_joined_again(
    code: ErrorCode, comes_back_as: str
) -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        coordinator.codes["sync"] = [code]
        assert await member.join() == ORDERS[:1]
        asked = [request.member_id for _, request in coordinator.asked_for("JoinGroup")]
        assert asked == ["", comes_back_as]

    with_member(story)


def test_a_heartbeat_says_whether_the_generation_is_over() -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        await member.join()
        coordinator.codes["heartbeat"] = [ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS]
        assert await member.heartbeat()
        assert not await member.heartbeat()
        (_, request), _ = coordinator.asked_for("Heartbeat")
        assert (request.generation_id, request.member_id) == (4, "me")

    with_member(story)


def test_a_commit_of_an_old_generation_is_refused() -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        await member.join()
        assert await member.commit({ORDERS[0]: 7})
        coordinator.codes["commit"] = [ErrorCode.ILLEGAL_GENERATION]
        assert not await member.commit({ORDERS[0]: 8})
        (_, request), _ = coordinator.asked_for("OffsetCommit")
        assert (request.generation_id_or_member_epoch, request.member_id) == (4, "me")

    with_member(story)


def test_a_commit_that_is_refused_for_another_reason_is_an_error() -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        await member.join()
        coordinator.codes["commit"] = [ErrorCode.OFFSET_METADATA_TOO_LARGE]
        with pytest.raises(Refused):
            await member.commit({ORDERS[0]: 8})

    with_member(story)


def test_a_join_with_an_inconsistent_protocol_is_an_error() -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        coordinator.joins = [refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)]
        with pytest.raises(Refused) as error:
            await member.join()
        assert error.value.code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    with_member(story)


def test_a_coordinator_is_looked_up_once_for_many_requests() -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        await member.join()
        for offset in range(5):
            assert await member.heartbeat()
            assert await member.commit({ORDERS[0]: offset})
        await member.leave()
        assert len(coordinator.asked_for("Heartbeat")) == 5
        assert len(coordinator.asked_for("OffsetCommit")) == 5
        assert len(coordinator.asked_for("FindCoordinator")) == 1

    with_member(story)


@pytest.mark.parametrize(
    ("code", "looks"),
    [
        (ErrorCode.NOT_COORDINATOR, 2),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 2),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1),
    ],
)
@pytest.mark.parametrize("asked", ["heartbeat", "commit", "join"])
def test_a_coordinator_that_answers_not_coordinator_is_looked_up_again(
    code: ErrorCode, looks: int, asked: str
) -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        if asked == "join":
            coordinator.joins = [refused(code), joined()]
        else:
            coordinator.codes[asked] = [code]
        await member.join()
        assert await member.heartbeat()
        assert await member.commit({ORDERS[0]: 7})
        assert len(coordinator.asked_for("FindCoordinator")) == looks

    with_member(story)


def test_a_group_that_moved_is_followed() -> None:
    async def story() -> None:
        async with FakeCluster(2) as cluster, cluster.router() as router:
            cluster.leaders = {"orders": [1, 1, 1]}
            first, second = (Coordinator(broker) for broker in cluster.brokers.values())
            member = Membership(router, "g", ["orders"], MemberOptions())
            await member.join()
            moved = find_coordinator.FindCoordinatorResponse(node_id=2, host="b2", port=PORT)
            cluster.answer_everywhere("FindCoordinator", lambda _: lambda *_: moved)
            first.codes["heartbeat"] = [ErrorCode.NOT_COORDINATOR]
            assert await member.heartbeat()
            assert await member.heartbeat()
            assert len(first.asked_for("Heartbeat")) == 1
            assert len(second.asked_for("Heartbeat")) == 2

    run(story())


def test_a_coordinator_that_disconnected_is_looked_up_again() -> None:
    async def story() -> None:
        async with FakeCluster() as cluster, cluster.router() as router:
            coordinator = Coordinator(cluster.brokers[1])
            member = Membership(router, "g", ["orders"], MemberOptions())
            await member.join()
            await hang_up(cluster.brokers[1])
            assert await member.heartbeat()
            assert len(coordinator.asked_for("FindCoordinator")) == 2
            await hang_up(cluster.brokers[1])
            # One FindCoordinator: the request is not sent on a dead connection.
            await member.leave()
            assert len(coordinator.asked_for("LeaveGroup")) == 1

    async def hang_up(broker: FakeBroker) -> None:
        for connection in broker.connections:
            connection.transport.abort()
        await asyncio.sleep(1)

    run(story())


def test_a_member_leaves_once() -> None:
    async def story(coordinator: Coordinator, member: Membership) -> None:
        await member.leave()
        await member.join()
        await member.leave()
        await member.leave()
        ((version, request),) = coordinator.asked_for("LeaveGroup")
        assert (version, request.member_id) == (2, "me")

    with_member(story)
