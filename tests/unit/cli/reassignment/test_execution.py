"""Executes plans at fake brokers that refuse, lose their controller, or change their mind."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.cli.reassignment.execution import Execution, execute
from ottla.cli.reassignment.plan import Move
from ottla.cli.reassignment.throttle import FOLLOWER_RATE, LEADER_RATE, throttle_of
from ottla.cli.shared.connect import client_failure
from ottla.cli.shared.failure import Failure
from ottla.client.errors import Refused
from ottla.client.routing.router import Router
from ottla.errors import ErrorCode
from ottla.protocol.config_resource import ResourceType
from ottla.protocol.messages import alter_partition_reassignments as alter
from ottla.protocol.messages import describe_configs
from ottla.protocol.messages import incremental_alter_configs as configs
from ottla.protocol.messages import list_partition_reassignments as listing
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run
from tests.support.client.fake_cluster import FakeCluster

FIRST = Move(TopicPartition("orders", 0), (1,), (2, 1), 100)
SECOND = Move(TopicPartition("orders", 1), (1,), (2,), 100)
HOW = Execution("ottla topic reassign --cancel --yes")
THROTTLED = Execution("ottla topic reassign --cancel --yes", throttle_bytes_per_s=500)


class Brokers:
    """Brokers that answer what an execution asks, and remember their settings."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        cluster.leaders = {"orders": [1, 1]}
        self.codes: dict[int, int] = {}
        # The errors of cancellations.
        self.cancel_codes: dict[int, int] = {}
        # The requested replicas of each partition, in their order; None is a cancellation.
        self.asked: list[dict[int, tuple[int, ...] | None]] = []
        self.settings: dict[tuple[int, str], dict[str, str]] = {}
        for api, answer in (
            ("AlterPartitionReassignments", self._alter),
            ("ListPartitionReassignments", self._list),
            ("IncrementalAlterConfigs", self._configure),
            ("DescribeConfigs", self._describe),
        ):
            cluster.answer_everywhere(api, lambda _, answer=answer: answer)

    def _alter(self, request: alter.AlterPartitionReassignmentsRequest, version: int) -> Any:
        (topic,) = request.topics
        self.asked.append({each.partition_index: each.replicas for each in topic.partitions})
        results = tuple(
            alter.PartitionResult(
                partition_index=each.partition_index,
                error_code=(self.codes if each.replicas else self.cancel_codes).get(
                    each.partition_index, 0
                ),
                error_message=None,
            )
            for each in topic.partitions
        )
        return alter.AlterPartitionReassignmentsResponse(
            error_code=0, responses=(alter.TopicResult(name=topic.name, partitions=results),)
        )

    def _list(self, request: Any, version: int) -> Any:
        return listing.ListPartitionReassignmentsResponse(error_code=0, topics=())

    def _configure(self, request: configs.IncrementalAlterConfigsRequest, version: int) -> Any:
        for resource in request.resources:
            own = self.settings.setdefault((resource.resource_type, resource.resource_name), {})
            for config in resource.configs:
                own.pop(config.name, None)
                if config.value is not None:
                    own[config.name] = config.value
        return configs.IncrementalAlterConfigsResponse(
            responses=tuple(
                configs.ResourceResult(
                    error_code=0,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                )
                for each in request.resources
            )
        )

    def _describe(self, request: describe_configs.DescribeConfigsRequest, version: int) -> Any:
        results = []
        for each in request.resources:
            key = each.resource_type, each.resource_name
            source = 1 if each.resource_type == ResourceType.TOPIC else 2
            entries = tuple(
                describe_configs.Config(
                    name=name,
                    value=value,
                    read_only=False,
                    config_source=source,
                    is_sensitive=False,
                    synonyms=(),
                )
                for name, value in self.settings.get(key, {}).items()
            )
            results.append(
                describe_configs.ResourceResult(
                    error_code=0,
                    error_message=None,
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=entries,
                )
            )
        return describe_configs.DescribeConfigsResponse(results=tuple(results))


def with_brokers(story: Callable[[Brokers, Router], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with (
            FakeCluster(2) as cluster,
            cluster.router(default_api_timeout_ms=1000) as router,
        ):
            brokers = Brokers(cluster)
            await router.refresh(())
            await story(brokers, router)

    run(tell())


def test_if_one_partition_is_refused_the_others_are_taken_back() -> None:
    async def story(brokers: Brokers, router: Router) -> None:
        brokers.codes = {1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        with pytest.raises(Failure) as failed:
            await execute(router, [FIRST, SECOND], THROTTLED)
        assert failed.value.what == "reassignment of orders-1 was refused"
        assert failed.value.why == "UNKNOWN_TOPIC_OR_PARTITION"
        assert "nothing was changed" in str(failed.value.advice)
        assert brokers.asked == [{0: (2, 1), 1: (2,)}, {0: None}]
        assert set(map(len, brokers.settings.values())) == {0}

    with_brokers(story)


def test_what_cannot_be_taken_back_is_named() -> None:
    async def story(brokers: Brokers, router: Router) -> None:
        brokers.codes = {1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        brokers.cancel_codes = {0: ErrorCode.INVALID_REPLICA_ASSIGNMENT}
        with pytest.raises(Failure) as failed:
            await execute(router, [FIRST, SECOND], HOW)
        assert failed.value.what == "reassignment of orders-1 was refused"
        advice = str(failed.value.advice)
        assert "nothing was changed" not in advice
        assert "1 partition of 2 could not be moved" in advice
        assert "orders-0 could not be taken back (INVALID_REPLICA_ASSIGNMENT)" in advice

    with_brokers(story)


def test_a_move_that_ended_elsewhere_is_a_failure() -> None:
    async def story(brokers: Brokers, router: Router) -> None:
        with pytest.raises(Failure) as failed:
            await execute(router, [FIRST], HOW)
        assert failed.value.what == "orders-0 did not get the planned replicas"
        assert "orders-0 has replicas 1" in str(failed.value.why)

    with_brokers(story)


def test_without_a_controller_nothing_begins_and_no_throttle_stays() -> None:
    async def story(brokers: Brokers, router: Router) -> None:
        brokers.cluster.controller = -1
        with pytest.raises(Refused) as refused:
            await execute(router, [FIRST], THROTTLED)
        failure = client_failure(refused.value, "b1:9092")
        assert failure.what == "the cluster has no controller"
        assert failure.advice is not None
        assert brokers.asked == []
        assert set(map(len, brokers.settings.values())) == {0}

    with_brokers(story)


def test_a_throttle_that_is_refused_leaves_the_others_as_they_were() -> None:
    async def story(brokers: Brokers, router: Router) -> None:
        brokers.settings[ResourceType.BROKER, "1"] = {LEADER_RATE: "7"}
        await brokers.cluster.brokers[2].stop()
        with pytest.raises(Exception, match="b2:9092"):
            await execute(router, [FIRST], THROTTLED)
        assert brokers.asked == []
        assert brokers.settings[ResourceType.BROKER, "1"] == {LEADER_RATE: "7"}
        assert brokers.settings[ResourceType.TOPIC, "orders"] == {}

    with_brokers(story)


def test_a_throttle_names_old_replicas_as_leaders_and_new_ones_as_followers() -> None:
    only_removed = Move(TopicPartition("logs", 0), (1, 2), (1,), 100)
    topic, *brokers = throttle_of([FIRST, SECOND, only_removed], live=[1], rate_bytes_per_s=9)
    assert (topic.resource, topic.name) == (ResourceType.TOPIC, "orders")
    assert topic.values == {
        "leader.replication.throttled.replicas": "0:1,1:1",
        "follower.replication.throttled.replicas": "0:2,1:2",
    }
    # A broker that is down cannot be told.
    assert [(each.name, each.values) for each in brokers] == [
        ("1", {LEADER_RATE: "9", FOLLOWER_RATE: "9"})
    ]
