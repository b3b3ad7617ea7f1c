"""The brokers, topics and leaders of a cluster, from Metadata responses. Does no I/O."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ottla.address import Address
from ottla.client.errors import Refused, Unreachable, error_code, raise_if_refused
from ottla.errors import ErrorCode
from ottla.protocol.messages import metadata
from ottla.protocol.messages.metadata import MetadataRequest, MetadataResponse, RequestedTopic
from ottla.protocol.primitives import NO_BROKER, ZERO_UUID, Uuid
from ottla.protocol.topic_partition import TopicPartition


class Broker(NamedTuple):
    """A broker and its address."""

    node_id: int
    address: Address
    rack: str | None

    def unreachable(self, error: Unreachable) -> Unreachable:
        """The error for a broker that is not reachable at its advertised address."""
        return Unreachable(f"broker {self.node_id} says that it is at {self.address}: {error}")


class Partition(NamedTuple):
    """A partition's leader and replicas. `leader` is NO_BROKER if there is none."""

    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]

    @property
    def is_unavailable(self) -> bool:
        """Whether nobody leads it: it can be neither read nor written."""
        return self.leader == NO_BROKER

    @property
    def is_under_replicated(self) -> bool:
        """Whether a replica is not in sync."""
        return len(self.in_sync) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic and its partitions, in the order of their numbers."""

    name: str
    topic_id: Uuid
    is_internal: bool
    partitions: tuple[Partition, ...]

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].replicas) if self.partitions else 0


@dataclass(frozen=True, slots=True)
class Topology:
    """The content of one Metadata response, or of several about different topics."""

    brokers: Mapping[int, Broker] = field(default_factory=dict)
    controller: int = NO_BROKER
    cluster_id: str | None = None
    topics: Mapping[str, Topic] = field(default_factory=dict)
    # The error codes of requested topics that do not exist or are not available.
    missing: Mapping[str, ErrorCode] = field(default_factory=dict)

    @property
    def addresses(self) -> list[Address]:
        """The addresses of all known brokers."""
        return [broker.address for broker in self.brokers.values()]

    def topic_id(self, name: str) -> Uuid:
        """The topic's id; ZERO_UUID if it is not known."""
        topic = self.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def unknown(self, topics: Iterable[str]) -> list[str]:
        """The topics without a result or an error code."""
        return [name for name in topics if name not in self.topics and name not in self.missing]

    def topic_with_leaders(self, name: str) -> Topic:
        """A topic. Refused if it does not exist, or one of its partitions has no leader."""
        topic = self.topics.get(name)
        if topic is None:
            raise self.why_missing(name)
        for partition in topic.partitions:
            if partition.leader not in self.brokers:
                raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{partition.number}")
        return topic

    def leader_of(self, partition: TopicPartition) -> Broker | None:
        """The known leader of a partition."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return self.brokers.get(topic.partitions[partition.partition].leader)

    def why_missing(self, topic: str) -> Refused:
        """The error for a topic that is not in the metadata."""
        code = self.missing.get(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Refused(code, f"topic {topic}")

    def why_not_led(self, partition: TopicPartition) -> Refused:
        """The error for a partition without a known leader."""
        topic = self.topics.get(partition.topic)
        if topic is None:
            return self.why_missing(partition.topic)
        if not 0 <= partition.partition < len(topic.partitions):
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition}")
        return Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition}")

    def without(self, topics: Collection[str]) -> "Topology":
        """The same without these topics."""
        return replace(
            self,
            topics={name: topic for name, topic in self.topics.items() if name not in topics},
            missing={name: code for name, code in self.missing.items() if name not in topics},
        )

    def updated(self, answer: MetadataResponse) -> "Topology":
        """The same with the topics of a response replaced."""
        named = {topic.name: topic for topic in answer.topics if topic.name is not None}
        before = self.without(named)
        known, missing = dict(before.topics), dict(before.missing)
        for name, topic in named.items():
            if topic.error_code == ErrorCode.NONE:
                known[name] = _topic(name, topic)
            else:
                missing[name] = error_code(topic.error_code)
        return Topology(
            {each.node_id: _broker(each) for each in answer.brokers},
            answer.controller_id,
            answer.cluster_id,
            known,
            missing,
        )


def metadata_request(
    topics: Collection[str] | None, *, may_create: bool = False
) -> MetadataRequest:
    """The request for the metadata of the cluster and these topics (None: all topics)."""
    asked = None if topics is None else tuple(RequestedTopic(name=name) for name in topics)
    return MetadataRequest(topics=asked, allow_auto_topic_creation=may_create)


def learned(before: Topology, topics: Collection[str] | None, answer: MetadataResponse) -> Topology:
    """The topology after a response to a request about these topics. Refused."""
    raise_if_refused(answer.error_code, "the cluster's metadata")
    # A response about all topics replaces everything.
    return (Topology() if topics is None else before).updated(answer)


def _topic(name: str, response: metadata.Topic) -> Topic:
    partitions = (
        Partition(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            each.replica_nodes,
            each.isr_nodes,
            each.offline_replicas,
        )
        for each in response.partitions
    )
    in_order = tuple(sorted(partitions, key=lambda partition: partition.number))
    return Topic(name, response.topic_id, response.is_internal, in_order)


def _broker(response: metadata.Broker) -> Broker:
    return Broker(response.node_id, Address(response.host, response.port), response.rack)
