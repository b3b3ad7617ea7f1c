"""Administration of a cluster: topics, partitions, offsets, configs, log directories.

A request about several things has one outcome for each: its result, or its error (`Refused`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.address import Address
from ottla.client.connection.connection import Connection
from ottla.client.errors import Refused, raise_if_refused, refusal
from ottla.client.reading.offsets import ListedOffset, list_offsets
from ottla.client.routing.outcomes import Outcomes
from ottla.client.routing.router import Router
from ottla.client.routing.topology import Broker, Topic
from ottla.protocol.config_resource import ResourceType
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages import (
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
)
from ottla.protocol.topic_partition import TopicPartition, by_topic

# Leaves the number to the broker.
BROKER_DEFAULT = -1
# The last version of DeleteTopics with a plain list of names.
_PLAIN_NAMES_VERSION_MAX = 5


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


class Config(NamedTuple):
    """One config. `value` is None if it is not set, or is sensitive."""

    name: str
    value: str | None
    source: int
    is_read_only: bool


class Cluster(NamedTuple):
    """A cluster and its brokers. `controller` is -1 if there is none."""

    cluster_id: str
    controller: int
    brokers: tuple[Broker, ...]


class LogDirectory(NamedTuple):
    """A log directory of a broker. Sizes are in bytes, -1 if they are not known."""

    path: str
    error: Refused | None
    total_bytes: int
    usable_bytes: int
    sizes: Mapping[TopicPartition, int]


class Admin:
    """Sends each request to the broker that serves it, and retries while leaders move."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def list_topics(self) -> list[Topic]:
        """Every visible topic, in the order of names."""
        topology = await self._router.retrying(lambda: self._router.refresh(None))
        return [topology.topics[name] for name in sorted(topology.topics)]

    async def describe_topics(self, names: Collection[str]) -> dict[str, Topic | Refused]:
        topology = await self._router.retrying(lambda: self._router.refresh(names))
        return {name: topology.topics.get(name) or topology.why_missing(name) for name in names}

    async def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, Refused | None]:
        """None for a topic that was created or, with `validate_only`, could be."""
        request = create_topics.CreateTopicsRequest(
            topics=tuple(_requested_topic(topic) for topic in topics),
            timeout_ms=self._router.options.request_timeout_ms,
            validate_only=validate_only,
        )
        answer: create_topics.CreateTopicsResponse = await self._router.ask_controller(
            request, lambda answer: [each.error_code for each in answer.topics]
        )
        return {
            each.name: refusal(each.error_code, f"topic {each.name}", each.error_message)
            for each in answer.topics
        }

    async def delete_topics(self, names: Sequence[str]) -> dict[str, Refused | None]:
        """None for a topic that was deleted."""
        request = delete_topics.DeleteTopicsRequest(
            topic_names=tuple(names),
            timeout_ms=self._router.options.request_timeout_ms,
        )
        answer: delete_topics.DeleteTopicsResponse = await self._router.ask_controller(
            request,
            lambda answer: [each.error_code for each in answer.responses],
            version_max=_PLAIN_NAMES_VERSION_MAX,
        )
        return {
            each.name: refusal(each.error_code, f"topic {each.name}", each.error_message)
            for each in answer.responses
            if each.name is not None
        }

    async def create_partitions(self, topic: str, total: int) -> None:
        """Increases a topic's partitions to `total`. Refused."""
        request = create_partitions.CreatePartitionsRequest(
            topics=(create_partitions.Topic(name=topic, count=total, assignments=None),),
            timeout_ms=self._router.options.request_timeout_ms,
            validate_only=False,
        )
        answer: create_partitions.CreatePartitionsResponse = await self._router.ask_controller(
            request, lambda answer: [each.error_code for each in answer.results]
        )
        for each in answer.results:
            raise_if_refused(each.error_code, f"topic {each.name}", each.error_message)

    async def list_offsets(
        self,
        specs: Mapping[TopicPartition, int],
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> Outcomes[ListedOffset]:
        """See `offsets.list_offsets`."""
        return await list_offsets(self._router, specs, isolation)

    async def delete_records(self, before: Mapping[TopicPartition, int]) -> Outcomes[int]:
        """Deletes the records before each offset; returns the new log start offsets."""

        async def ask(leader: Connection, partitions: Sequence[TopicPartition]) -> Outcomes[int]:
            request = delete_records.DeleteRecordsRequest(
                topics=tuple(
                    delete_records.Topic(
                        name=topic,
                        partitions=tuple(
                            delete_records.Partition(
                                partition_index=each.partition, offset=before[each]
                            )
                            for each in group
                        ),
                    )
                    for topic, group in by_topic(partitions).items()
                ),
                timeout_ms=self._router.options.request_timeout_ms,
            )
            return _low_watermarks(await leader.ask(request))

        return await self._router.ask_leaders(before, ask)

    async def describe_cluster(self) -> Cluster:
        request = describe_cluster.DescribeClusterRequest(
            include_cluster_authorized_operations=False
        )
        answer: describe_cluster.DescribeClusterResponse = await self._router.ask_any(request)
        raise_if_refused(answer.error_code, "the cluster", answer.error_message)
        brokers = (
            Broker(each.broker_id, Address(each.host, each.port), each.rack)
            for each in answer.brokers
        )
        return Cluster(answer.cluster_id, answer.controller_id, tuple(sorted(brokers)))

    async def describe_configs(self, resource: ResourceType, name: str) -> list[Config]:
        """Every config of a topic, or of the broker with this id. Refused."""
        asked = describe_configs.Resource(
            resource_type=resource, resource_name=name, configuration_keys=None
        )
        request = describe_configs.DescribeConfigsRequest(resources=(asked,))
        answer: describe_configs.DescribeConfigsResponse
        if resource is ResourceType.BROKER:
            answer = await (await self._router.broker(int(name))).ask(request)
        else:
            answer = await self._router.ask_any(request)
        what = f"settings of {resource.name.lower()} {name}"
        for each in answer.results:
            raise_if_refused(each.error_code, what, each.error_message)
        return [
            Config(config.name, config.value, config.config_source, config.read_only)
            for each in answer.results
            for config in each.configs
        ]

    async def describe_log_dirs(self, node_id: int) -> list[LogDirectory]:
        """The log directories of the broker with this id, with the sizes of logs. Refused."""
        request = describe_log_dirs.DescribeLogDirsRequest(topics=None)
        connection = await self._router.broker(node_id)
        answer: describe_log_dirs.DescribeLogDirsResponse = await connection.ask(request)
        raise_if_refused(answer.error_code, f"log directories of broker {node_id}")
        return [
            LogDirectory(
                each.log_dir,
                refusal(each.error_code, each.log_dir),
                each.total_bytes,
                each.usable_bytes,
                {
                    TopicPartition(topic.name, partition.partition_index): partition.partition_size
                    for topic in each.topics
                    for partition in topic.partitions
                },
            )
            for each in answer.results
        ]


def _requested_topic(topic: NewTopic) -> create_topics.Topic:
    return create_topics.Topic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        assignments=(),
        configs=tuple(
            create_topics.Config(name=name, value=value) for name, value in topic.configs.items()
        ),
    )


def _low_watermarks(answer: delete_records.DeleteRecordsResponse) -> Outcomes[int]:
    outcomes: Outcomes[int] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            refused = refusal(each.error_code, f"records of {partition}")
            outcomes[partition] = refused or each.low_watermark
    return outcomes
