"""Group requests: which broker gets them, and how their responses are decoded."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.address import Address
from ottla.client.admin.group_offsets import (
    CommittedOffset,
    commit_offsets,
    committed_offsets,
    delete_offsets,
)
from ottla.client.admin.groups import (
    ListedGroup,
    Member,
    delete_group,
    describe_group,
    list_all_groups,
)
from ottla.client.errors import Refused
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.consumer_protocol import encode_partitions
from ottla.protocol.messages import (
    consumer_group_describe,
    delete_groups,
    describe_groups,
    find_coordinator,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
)
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run
from tests.support.client.fake_cluster import PORT, TOPIC_ID, FakeBroker, FakeCluster

ORDERS = TopicPartition("orders", 1)
USERS = TopicPartition("users", 0)


def with_groups(story: Callable[[FakeCluster, Router], Awaitable[None]]) -> None:
    """Two brokers, of which the second coordinates every group."""

    async def tell() -> None:
        async with FakeCluster(2) as cluster, cluster.router() as router:
            cluster.answer_everywhere("FindCoordinator", lambda _: _at_b2)
            await story(cluster, router)

    run(tell())


def _at_b2(request: Any, version: int) -> find_coordinator.FindCoordinatorResponse:
    return find_coordinator.FindCoordinatorResponse(node_id=2, host="b2", port=PORT)


def described(**fields: Any) -> Callable[[Any, int], describe_groups.DescribeGroupsResponse]:
    group: dict[str, Any] = {
        "error_code": 0,
        "group_id": "g",
        "group_state": "Stable",
        "protocol_type": "consumer",
        "protocol_data": "range",
        "members": (),
    }
    return lambda request, version: describe_groups.DescribeGroupsResponse(
        groups=(describe_groups.Group(**group | fields),)
    )


def test_groups_of_all_brokers_are_listed_once_and_in_order() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        def answer(broker: FakeBroker) -> Any:
            own = (f"of-b{broker.node_id}", "moved")
            return lambda request, version: list_groups.ListGroupsResponse(
                error_code=0,
                groups=tuple(
                    list_groups.Group(
                        group_id=name,
                        protocol_type="consumer",
                        group_state="Empty",
                        group_type="classic",
                    )
                    for name in own
                ),
            )

        cluster.answer_everywhere("ListGroups", answer)
        assert await list_all_groups(router) == [
            ListedGroup(name, "consumer", "Empty", "classic")
            for name in ("moved", "of-b1", "of-b2")
        ]

    with_groups(story)


def test_a_classic_group_is_described_with_its_assignment() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        member = describe_groups.Member(
            member_id="m",
            group_instance_id="i",
            client_id="c",
            client_host="/h",
            member_metadata=b"",
            member_assignment=encode_partitions([ORDERS]),
        )
        cluster.brokers[2].answers["DescribeGroups"] = described(members=(member,))
        group = await describe_group(router, "g")
        assert (group.type, group.state, group.assignor) == ("classic", "Stable", "range")
        assert group.coordinator == Address("b2", PORT)
        assert group.members == (Member("m", "i", "c", "/h", (ORDERS,)),)

    with_groups(story)


@pytest.mark.parametrize(("protocol_type", "raw"), [("connect", b"\0\1x"), ("consumer", b"\0\0\7")])
def test_an_assignment_of_another_protocol_type_is_not_decoded(
    protocol_type: str, raw: bytes
) -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        member = describe_groups.Member(
            member_id="m",
            client_id="c",
            client_host="/h",
            member_metadata=b"",
            member_assignment=raw,
        )
        cluster.brokers[2].answers["DescribeGroups"] = described(
            members=(member,), protocol_type=protocol_type
        )
        (found,) = (await describe_group(router, "g")).members
        assert found.partitions is None

    with_groups(story)


def test_a_group_of_the_consumer_protocol_is_described_by_its_own_api() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        assignment = consumer_group_describe.Assignment(
            topic_partitions=(
                consumer_group_describe.TopicPartitions(
                    topic_id=TOPIC_ID, topic_name="orders", partitions=(1,)
                ),
            )
        )
        member = consumer_group_describe.Member(
            member_id="m",
            member_epoch=3,
            client_id="c",
            client_host="/h",
            subscribed_topic_names=("orders",),
            assignment=assignment,
            target_assignment=assignment,
        )
        group = consumer_group_describe.Group(
            error_code=0,
            group_id="g",
            group_state="Stable",
            group_epoch=3,
            assignment_epoch=3,
            assignor_name="uniform",
            members=(member,),
        )
        answer = consumer_group_describe.ConsumerGroupDescribeResponse(groups=(group,))
        cluster.brokers[2].answers["ConsumerGroupDescribe"] = lambda request, version: answer
        found = await describe_group(router, "g")
        assert (found.type, found.assignor) == ("consumer", "uniform")
        assert found.members == (Member("m", None, "c", "/h", (ORDERS,)),)

    with_groups(story)


def test_a_group_not_found_by_the_consumer_protocol_is_described_as_classic() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        missing = consumer_group_describe.Group(
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            group_id="g",
            group_state="",
            group_epoch=0,
            assignment_epoch=0,
            assignor_name="",
            members=(),
        )
        answer = consumer_group_describe.ConsumerGroupDescribeResponse(groups=(missing,))
        cluster.brokers[2].answers["ConsumerGroupDescribe"] = lambda request, version: answer
        cluster.brokers[2].answers["DescribeGroups"] = described()
        assert (await describe_group(router, "g")).type == "classic"

    with_groups(story)


@pytest.mark.parametrize(
    "fields",
    [{"group_state": "Dead"}, {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "group_state": ""}],
    ids=["in old versions", "in new ones"],
)
def test_a_group_that_does_not_exist_is_refused(fields: dict[str, Any]) -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        cluster.brokers[2].answers["DescribeGroups"] = described(**fields)
        with pytest.raises(Refused) as refused:
            await describe_group(router, "g")
        assert refused.value.code == ErrorCode.GROUP_ID_NOT_FOUND

    with_groups(story)


def test_a_coordinator_that_has_moved_is_looked_up_again() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        hosts = iter([1, 2])

        def find(request: Any, version: int) -> find_coordinator.FindCoordinatorResponse:
            node_id = next(hosts)
            return find_coordinator.FindCoordinatorResponse(
                node_id=node_id, host=f"b{node_id}", port=PORT
            )

        def answer(broker: FakeBroker) -> Any:
            code = ErrorCode.NONE if broker.node_id == 2 else ErrorCode.NOT_COORDINATOR
            result = delete_groups.GroupResult(group_id="g", error_code=code)
            return lambda request, version: delete_groups.DeleteGroupsResponse(results=(result,))

        cluster.answer_everywhere("FindCoordinator", lambda _: find)
        cluster.answer_everywhere("DeleteGroups", answer)
        await delete_group(router, "g")
        assert len(cluster.brokers[1].asked_for("DeleteGroups")) == 1
        assert len(cluster.brokers[2].asked_for("DeleteGroups")) == 1

    with_groups(story)


def test_a_group_with_members_is_not_deleted() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        result = delete_groups.GroupResult(group_id="g", error_code=ErrorCode.NON_EMPTY_GROUP)
        answer = delete_groups.DeleteGroupsResponse(results=(result,))
        cluster.brokers[2].answers["DeleteGroups"] = lambda request, version: answer
        with pytest.raises(Refused) as refused:
            await delete_group(router, "g")
        assert refused.value.code == ErrorCode.NON_EMPTY_GROUP

    with_groups(story)


def test_partitions_without_a_committed_offset_are_left_out() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        def result(index: int, offset: int, metadata: str | None) -> offset_fetch.PartitionResult:
            return offset_fetch.PartitionResult(
                partition_index=index, committed_offset=offset, metadata=metadata, error_code=0
            )

        answer = offset_fetch.OffsetFetchResponse(
            topics=(
                offset_fetch.TopicResult(name="users", partitions=(result(0, 7, None),)),
                offset_fetch.TopicResult(
                    name="orders", partitions=(result(1, 5, "note"), result(2, -1, ""))
                ),
            )
        )
        cluster.brokers[2].answers["OffsetFetch"] = lambda request, version: answer
        found = await committed_offsets(router, "g")
        assert list(found.items()) == [
            (ORDERS, CommittedOffset(5, -1, "note")),
            (USERS, CommittedOffset(7)),
        ]
        ((version, request),) = cluster.brokers[2].asked_for("OffsetFetch")
        assert (version, request.group_id, request.topics) == (7, "g", None)

    with_groups(story)


def test_offsets_are_committed_from_outside_the_group() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        def answer(request: offset_commit.OffsetCommitRequest, version: int) -> Any:
            codes = {"orders": 0, "users": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            return offset_commit.OffsetCommitResponse(
                topics=tuple(
                    offset_commit.TopicResult(
                        name=topic.name,
                        partitions=tuple(
                            offset_commit.PartitionResult(
                                partition_index=each.partition_index,
                                error_code=codes[topic.name],
                            )
                            for each in topic.partitions
                        ),
                    )
                    for topic in request.topics
                )
            )

        cluster.brokers[2].answers["OffsetCommit"] = answer
        outcomes = await commit_offsets(
            router, "g", {ORDERS: CommittedOffset(5, 2, "m"), USERS: CommittedOffset(7)}
        )
        assert outcomes[ORDERS] == CommittedOffset(5, 2, "m")
        assert isinstance(refused := outcomes[USERS], Refused)
        assert refused.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ((_, request),) = cluster.brokers[2].asked_for("OffsetCommit")
        assert (request.member_id, request.generation_id_or_member_epoch) == ("", -1)

    with_groups(story)


def test_each_offset_is_deleted_or_refused_by_itself() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        result = offset_delete.PartitionResult(
            partition_index=1, error_code=ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        )
        answer = offset_delete.OffsetDeleteResponse(
            error_code=0, topics=(offset_delete.TopicResult(name="orders", partitions=(result,)),)
        )
        cluster.brokers[2].answers["OffsetDelete"] = lambda request, version: answer
        outcomes = await delete_offsets(router, "g", [ORDERS])
        assert isinstance(refused := outcomes[ORDERS], Refused)
        assert refused.code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC

    with_groups(story)
