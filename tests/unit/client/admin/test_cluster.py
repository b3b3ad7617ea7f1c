"""Admin requests: which broker gets them, and how their responses are decoded."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.address import Address
from ottla.client.admin.cluster import BROKER_DEFAULT, Admin, Cluster, Config, NewTopic
from ottla.client.errors import Refused
from ottla.client.routing.topology import Broker, Topic
from ottla.errors import ErrorCode
from ottla.protocol.config_resource import ResourceType
from ottla.protocol.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
)
from ottla.protocol.topic_partition import TopicPartition
from tests.sim.seams.loop import run
from tests.support.client.fake_cluster import PORT, TOPIC_ID, FakeCluster


def with_admin(story: Callable[[FakeCluster, Admin], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with FakeCluster(2) as cluster, cluster.router() as router:
            cluster.controller = 2
            cluster.leaders = {"b": [1, 2], "a": [2]}
            await story(cluster, Admin(router))

    run(tell())


def test_topics_are_listed_by_name() -> None:
    async def story(cluster: FakeCluster, admin: Admin) -> None:
        topics = await admin.list_topics()
        assert [(topic.name, len(topic.partitions)) for topic in topics] == [("a", 1), ("b", 2)]
        assert (topics[1].topic_id, topics[1].replication_factor) == (TOPIC_ID, 1)

    with_admin(story)


def test_each_topic_is_described_or_refused_on_its_own() -> None:
    async def story(cluster: FakeCluster, admin: Admin) -> None:
        found = await admin.describe_topics(["b", "no"])
        assert isinstance(found["b"], Topic)
        assert [partition.leader for partition in found["b"].partitions] == [1, 2]
        assert isinstance(found["no"], Refused)
        assert found["no"].code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    with_admin(story)


def test_topics_are_created_by_the_controller_with_its_defaults() -> None:
    async def story(cluster: FakeCluster, admin: Admin) -> None:
        def answer(request: create_topics.CreateTopicsRequest, version: int) -> Any:
            results = (
                create_topics.TopicResult(name="x", error_code=0),
                create_topics.TopicResult(
                    name="b", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="it is there"
                ),
            )
            return create_topics.CreateTopicsResponse(topics=results)

        cluster.answer_everywhere("CreateTopics", lambda broker: answer)
        made = await admin.create_topics(
            [NewTopic("x", configs={"retention.ms": "5"}), NewTopic("b", 3, 2)]
        )
        assert made["x"] is None
        assert str(made["b"]) == "topic b: TOPIC_ALREADY_EXISTS: it is there"
        ((_, request),) = cluster.brokers[2].asked_for("CreateTopics")
        first, second = request.topics
        assert (first.num_partitions, first.replication_factor) == (BROKER_DEFAULT, BROKER_DEFAULT)
        assert [(config.name, config.value) for config in first.configs] == [("retention.ms", "5")]
        assert (second.num_partitions, second.replication_factor) == (3, 2)
        assert not cluster.brokers[1].asked_for("CreateTopics")

    with_admin(story)


def test_topics_are_deleted_by_name() -> None:
    async def story(cluster: FakeCluster, admin: Admin) -> None:
        def answer(request: delete_topics.DeleteTopicsRequest, version: int) -> Any:
            results = tuple(
                delete_topics.TopicResult(name=name, error_code=0 if name == "a" else 29)
                for name in request.topic_names
            )
            return delete_topics.DeleteTopicsResponse(responses=results)

        cluster.answer_everywhere("DeleteTopics", lambda broker: answer)
        gone = await admin.delete_topics(["a", "b"])
        assert gone["a"] is None
        assert isinstance(gone["b"], Refused)
        assert gone["b"].code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert [version for version, _ in cluster.brokers[2].asked_for("DeleteTopics")] == [5]

    with_admin(story)


def test_partitions_are_added_or_refused() -> None:
    async def story(cluster: FakeCluster, admin: Admin) -> None:
        def answer(request: create_partitions.CreatePartitionsRequest, version: int) -> Any:
            (topic,) = request.topics
            code = 0 if topic.count > 2 else ErrorCode.INVALID_PARTITIONS
            result = create_partitions.TopicResult(
                name=topic.name, error_code=code, error_message="only more" if code else None
            )
            return create_partitions.CreatePartitionsResponse(results=(result,))

        cluster.answer_everywhere("CreatePartitions", lambda broker: answer)
        await admin.create_partitions("b", 3)
        with pytest.raises(Refused, match="topic b: INVALID_PARTITIONS: only more"):
            await admin.create_partitions("b", 2)

    with_admin(story)


def test_records_are_deleted_by_each_leader() -> None:
    async def story(cluster: FakeCluster, admin: Admin) -> None:
        def answer(request: delete_records.DeleteRecordsRequest, version: int) -> Any:
            topics = tuple(
                delete_records.TopicResult(
                    name=topic.name,
                    partitions=tuple(
                        delete_records.PartitionResult(
                            partition_index=each.partition_index,
                            low_watermark=each.offset if each.offset < 100 else -1,
                            error_code=0 if each.offset < 100 else ErrorCode.OFFSET_OUT_OF_RANGE,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            )
            return delete_records.DeleteRecordsResponse(topics=topics)

        cluster.answer_everywhere("DeleteRecords", lambda broker: answer)
        b0, b1, a0 = TopicPartition("b", 0), TopicPartition("b", 1), TopicPartition("a", 0)
        begins = await admin.delete_records({b0: 5, b1: 100, a0: 7})
        assert (begins[b0], begins[a0]) == (5, 7)
        assert str(begins[b1]) == "records of b-1: OFFSET_OUT_OF_RANGE"
        assert [len(b.asked_for("DeleteRecords")) for b in cluster.brokers.values()] == [1, 1]

    with_admin(story)


def test_any_broker_describes_the_cluster() -> None:
    async def story(cluster: FakeCluster, admin: Admin) -> None:
        response = describe_cluster.DescribeClusterResponse(
            error_code=0,
            cluster_id="the-cluster",
            controller_id=2,
            brokers=(
                describe_cluster.Broker(broker_id=2, host="b2", port=PORT, rack="r"),
                describe_cluster.Broker(broker_id=1, host="b1", port=PORT),
            ),
        )
        cluster.answer_everywhere("DescribeCluster", lambda broker: lambda *_: response)
        assert await admin.describe_cluster() == Cluster(
            "the-cluster",
            2,
            (Broker(1, Address("b1", PORT), None), Broker(2, Address("b2", PORT), "r")),
        )

    with_admin(story)


def test_a_brokers_configs_are_requested_from_that_broker() -> None:
    async def story(cluster: FakeCluster, admin: Admin) -> None:
        def answer(request: describe_configs.DescribeConfigsRequest, version: int) -> Any:
            (resource,) = request.resources
            refused = resource.resource_name == "no"
            config = describe_configs.Config(
                name="num.partitions",
                value="1",
                read_only=True,
                config_source=5,
                is_sensitive=False,
                synonyms=(),
            )
            result = describe_configs.ResourceResult(
                error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if refused else 0,
                error_message="",
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
                configs=() if refused else (config,),
            )
            return describe_configs.DescribeConfigsResponse(results=(result,))

        cluster.answer_everywhere("DescribeConfigs", lambda broker: answer)
        described = await admin.describe_configs(ResourceType.BROKER, "2")
        assert described == [Config("num.partitions", "1", 5, True)]
        assert [len(b.asked_for("DescribeConfigs")) for b in cluster.brokers.values()] == [0, 1]
        with pytest.raises(Refused, match="settings of topic no: UNKNOWN_TOPIC_OR_PARTITION"):
            await admin.describe_configs(ResourceType.TOPIC, "no")

    with_admin(story)


def test_log_directories_have_sizes_and_errors() -> None:
    async def story(cluster: FakeCluster, admin: Admin) -> None:
        partition = describe_log_dirs.Partition(
            partition_index=0, partition_size=123, offset_lag=0, is_future_key=False
        )
        topic = describe_log_dirs.Topic(name="a", partitions=(partition,))
        response = describe_log_dirs.DescribeLogDirsResponse(
            results=(
                describe_log_dirs.LogDir(
                    error_code=0, log_dir="/x", topics=(topic,), total_bytes=10, usable_bytes=4
                ),
                describe_log_dirs.LogDir(
                    error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir="/y", topics=()
                ),
            )
        )
        cluster.brokers[2].answers["DescribeLogDirs"] = lambda *_: response
        good, bad = await admin.describe_log_dirs(2)
        assert (good.path, good.error, good.total_bytes, good.usable_bytes) == ("/x", None, 10, 4)
        assert good.sizes == {TopicPartition("a", 0): 123}
        assert str(bad.error) == "/y: KAFKA_STORAGE_ERROR"

    with_admin(story)


def test_an_unknown_error_code_is_an_error() -> None:
    async def story(cluster: FakeCluster, admin: Admin) -> None:
        response = describe_log_dirs.DescribeLogDirsResponse(error_code=9999, results=())
        cluster.brokers[2].answers["DescribeLogDirs"] = lambda *_: response
        with pytest.raises(Refused, match="UNKNOWN_SERVER_ERROR"):
            await admin.describe_log_dirs(2)

    with_admin(story)
