"""Errors inside a response are counted by name, once per part."""

from typing import Any

import pytest

from ottla.broker.node.node import Node
from ottla.protocol.messages import (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    elect_leaders,
    incremental_alter_configs,
)
from ottla.protocol.primitives import ZERO_UUID
from tests.support.broker.nodes import with_node
from tests.support.broker.simulated_broker import Client, create, new_topic

TOPIC = 2
PREFERRED = 0
UNKNOWN = "UNKNOWN_TOPIC_OR_PARTITION"

# Each request names the topic `there`, which succeeds, and `missing`, which fails.
ASKED = {
    "CreatePartitions": create_partitions.CreatePartitionsRequest(
        topics=tuple(
            create_partitions.Topic(name=name, count=2, assignments=None)
            for name in ("there", "missing")
        ),
        timeout_ms=1000,
        validate_only=True,
    ),
    "DeleteTopics": delete_topics.DeleteTopicsRequest(
        topics=tuple(
            delete_topics.Topic(name=name, topic_id=ZERO_UUID) for name in ("there", "missing")
        ),
        timeout_ms=1000,
    ),
    "DescribeConfigs": describe_configs.DescribeConfigsRequest(
        resources=tuple(
            describe_configs.Resource(
                resource_type=TOPIC, resource_name=name, configuration_keys=None
            )
            for name in ("there", "missing")
        )
    ),
    "AlterConfigs": alter_configs.AlterConfigsRequest(
        resources=tuple(
            alter_configs.Resource(resource_type=TOPIC, resource_name=name, configs=())
            for name in ("there", "missing")
        ),
        validate_only=False,
    ),
    "IncrementalAlterConfigs": incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=tuple(
            incremental_alter_configs.Resource(resource_type=TOPIC, resource_name=name, configs=())
            for name in ("there", "missing")
        ),
        validate_only=False,
    ),
    "AlterPartitionReassignments": alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=tuple(
            alter_partition_reassignments.Topic(
                name=name,
                partitions=(
                    alter_partition_reassignments.Partition(partition_index=0, replicas=(1,)),
                ),
            )
            for name in ("there", "missing")
        )
    ),
}


def counted(node: Node, api: str) -> dict[str, int]:
    return node.metrics.request(api).errors.counts


@pytest.mark.parametrize("api", ASKED)
def test_the_error_of_a_missing_topic_is_counted(api: str) -> None:
    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("there"))
        await client.ask(ASKED[api])
        assert counted(node, api) == {UNKNOWN: 1}

    with_node(story)


def test_the_error_of_an_existing_topic_is_counted() -> None:
    async def story(client: Client, node: Node) -> None:
        request = create_topics.CreateTopicsRequest(
            topics=(new_topic("there"),), timeout_ms=1000, validate_only=False
        )
        await client.ask(request)
        assert counted(node, "CreateTopics") == {}
        await client.ask(request)
        assert counted(node, "CreateTopics") == {"TOPIC_ALREADY_EXISTS": 1}

    with_node(story)


def test_the_error_of_a_needless_election_is_counted() -> None:
    async def story(client: Client, node: Node) -> None:
        await create(client, new_topic("there"))
        every: Any = await client.ask(
            elect_leaders.ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None)
        )
        assert [topic.partition_result for topic in every.replica_election_results] == [()]
        assert counted(node, "ElectLeaders") == {}
        named = elect_leaders.TopicPartitions(topic="there", partitions=(0,))
        await client.ask(
            elect_leaders.ElectLeadersRequest(election_type=PREFERRED, topic_partitions=(named,))
        )
        assert counted(node, "ElectLeaders") == {"ELECTION_NOT_NEEDED": 1}

    with_node(story)
