"""Requests for reassignments, elections and configs: who gets them, and how answers are read."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.client.admin.config_changes import change_configs, config_of_topics
from ottla.client.admin.leader_elections import ElectionType, elect_leaders
from ottla.client.admin.reassignments import (
    Reassignment,
    begin_reassignments,
    cancel_reassignments,
    list_reassignments,
)
from ottla.client.errors import Refused
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.config_resource import ResourceType
from ottla.protocol.messages import (
    alter_partition_reassignments as alter,
)
from ottla.protocol.messages import describe_configs
from ottla.protocol.messages import elect_leaders as elections
from ottla.protocol.messages import incremental_alter_configs as configs
from ottla.protocol.messages import list_partition_reassignments as listing
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run
from tests.support.client.fake_cluster import FakeCluster

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def with_router(story: Callable[[FakeCluster, Router], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with FakeCluster(2) as cluster, cluster.router() as router:
            cluster.controller = 2
            cluster.leaders = {"a": [1, 2], "b": [2]}
            await story(cluster, router)

    run(tell())


def altered(**codes: int) -> Callable[[Any, int], Any]:
    """Answers each partition with the code of its name, as in `a0`."""

    def answer(request: alter.AlterPartitionReassignmentsRequest, version: int) -> Any:
        return alter.AlterPartitionReassignmentsResponse(
            error_code=0,
            responses=tuple(
                alter.TopicResult(
                    name=topic.name,
                    partitions=tuple(
                        alter.PartitionResult(
                            partition_index=each.partition_index,
                            error_code=codes.get(f"{topic.name}{each.partition_index}", 0),
                            error_message=None,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    return answer


def test_moves_begin_at_the_controller_each_with_its_outcome() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
        cluster.brokers[2].answers["AlterPartitionReassignments"] = altered(a1=code)
        outcomes = await begin_reassignments(router, {A0: (1, 2), A1: (2,), B0: (1,)})
        assert (outcomes[A0], outcomes[B0]) == (None, None)
        assert str(outcomes[A1]) == "reassignment of a-1: INVALID_REPLICA_ASSIGNMENT"
        ((_, request),) = cluster.brokers[2].asked_for("AlterPartitionReassignments")
        assert [
            (topic.name, each.partition_index, each.replicas)
            for topic in request.topics
            for each in topic.partitions
        ] == [("a", 0, (1, 2)), ("a", 1, (2,)), ("b", 0, (1,))]

    with_router(story)


def test_a_cancelled_move_has_no_replicas_in_its_request() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        cluster.brokers[2].answers["AlterPartitionReassignments"] = altered()
        assert await cancel_reassignments(router, [A1]) == {A1: None}
        ((_, request),) = cluster.brokers[2].asked_for("AlterPartitionReassignments")
        assert request.topics[0].partitions[0].replicas is None

    with_router(story)


def test_a_controller_that_has_moved_is_asked_again() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        def moved(request: Any, version: int) -> Any:
            cluster.controller = 1
            return listing.ListPartitionReassignmentsResponse(
                error_code=ErrorCode.NOT_CONTROLLER, topics=()
            )

        def moving(request: Any, version: int) -> Any:
            partition = listing.Partition(
                partition_index=1, replicas=(3, 2, 1), adding_replicas=(3,), removing_replicas=(1,)
            )
            topic = listing.Topic(name="a", partitions=(partition,))
            return listing.ListPartitionReassignmentsResponse(error_code=0, topics=(topic,))

        cluster.brokers[2].answers["ListPartitionReassignments"] = moved
        cluster.brokers[1].answers["ListPartitionReassignments"] = moving
        assert await list_reassignments(router) == {A1: Reassignment((3, 2, 1), (3,), (1,))}

    with_router(story)


def test_a_listing_that_is_refused_is_refused() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        cluster.brokers[2].answers["ListPartitionReassignments"] = lambda request, version: (
            listing.ListPartitionReassignmentsResponse(
                error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, topics=()
            )
        )
        with pytest.raises(Refused, match="CLUSTER_AUTHORIZATION_FAILED"):
            await list_reassignments(router)

    with_router(story)


@pytest.mark.parametrize("election", list(ElectionType))
def test_leaders_are_elected_by_the_controller(election: ElectionType) -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        def answer(request: elections.ElectLeadersRequest, version: int) -> Any:
            assert request.election_type == election
            results = tuple(
                elections.TopicResult(
                    topic=topic.topic,
                    partition_result=tuple(
                        elections.PartitionResult(
                            partition_id=index,
                            error_code=ErrorCode.ELECTION_NOT_NEEDED if index else 0,
                        )
                        for index in topic.partitions
                    ),
                )
                for topic in request.topic_partitions or ()
            )
            return elections.ElectLeadersResponse(error_code=0, replica_election_results=results)

        cluster.brokers[2].answers["ElectLeaders"] = answer
        outcomes = await elect_leaders(router, [A0, A1, B0], election)
        assert (outcomes[A0], outcomes[B0]) == (None, None)
        refused = outcomes[A1]
        assert refused is not None
        assert refused.code == ErrorCode.ELECTION_NOT_NEEDED

    with_router(story)


def test_a_broker_changes_its_own_configs_and_any_broker_those_of_a_topic() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        def answer(request: configs.IncrementalAlterConfigsRequest, version: int) -> Any:
            results = tuple(
                configs.ResourceResult(
                    error_code=0,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
                for each in request.resources
            )
            return configs.IncrementalAlterConfigsResponse(responses=results)

        cluster.answer_everywhere("IncrementalAlterConfigs", lambda broker: answer)
        await change_configs(router, ResourceType.BROKER, "2", {"rate": "5", "old": None})
        ((_, request),) = cluster.brokers[2].asked_for("IncrementalAlterConfigs")
        (resource,) = request.resources
        assert (resource.resource_type, resource.resource_name) == (4, "2")
        assert [(each.name, each.config_operation, each.value) for each in resource.configs] == [
            ("rate", 0, "5"),
            ("old", 1, None),
        ]
        await change_configs(router, ResourceType.TOPIC, "a", {"rate": "5"})

    with_router(story)


def test_a_config_of_many_topics_is_asked_for_once() -> None:
    async def story(cluster: FakeCluster, router: Router) -> None:
        def answer(request: describe_configs.DescribeConfigsRequest, version: int) -> Any:
            assert all(each.configuration_keys == ("min",) for each in request.resources)
            entry = describe_configs.Config(
                name="min",
                value="2",
                read_only=False,
                config_source=1,
                is_sensitive=False,
                synonyms=(),
            )
            results = tuple(
                describe_configs.ResourceResult(
                    error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION * (each.resource_name == "b"),
                    error_message=None,
                    resource_type=2,
                    resource_name=each.resource_name,
                    configs=(entry,),
                )
                for each in request.resources
            )
            return describe_configs.DescribeConfigsResponse(results=results)

        cluster.answer_everywhere("DescribeConfigs", lambda broker: answer)
        assert await config_of_topics(router, "min", ["a", "b"]) == {"a": "2"}
        assert await config_of_topics(router, "min", []) == {}

    with_router(story)
