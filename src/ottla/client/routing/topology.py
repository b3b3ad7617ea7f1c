"""What a broker says of its cluster: brokers, topics, who leads what. Does no I/O."""

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
    """A broker and where it is reached."""

    node_id: int
    address: Address
    rack: str | None

    def why_away(self, error: Unreachable) -> Unreachable:
        """The error for a broker that is not found where the cluster says that it is."""
        return Unreachable(f"broker {self.node_id} says that it is at {self.address}: {error}")


class Partition(NamedTuple):
    """A partition's leader and copies. `leader` is NO_BROKER if it has none now."""

    number: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]


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
    """One answer to Metadata, or several about different topics."""

    brokers: Mapping[int, Broker] = field(default_factory=dict)
    controller: int = NO_BROKER
    cluster_id: str | None = None
    topics: Mapping[str, Topic] = field(default_factory=dict)
    # Topics that were asked for and are not there, or not yet, and why.
    missing: Mapping[str, ErrorCode] = field(default_factory=dict)

    @property
    def addresses(self) -> list[Address]:
        """Where all brokers that are known are reached."""
        return [broker.address for broker in self.brokers.values()]

    def topic_id(self, name: str) -> Uuid:
        """The id by which later versions name a topic; zero if it is not known."""
        topic = self.topics.get(name)
        return ZERO_UUID if topic is None else topic.topic_id

    def unknown(self, topics: Iterable[str]) -> list[str]:
        """Those of which nothing is known, or nothing any more."""
        return [name for name in topics if name not in self.topics and name not in self.missing]

    def led_topic(self, name: str) -> Topic:
        """A topic of which every partition is led. Refused if it is not there, or one is not."""
        topic = self.topics.get(name)
        if topic is None:
            raise self.why_missing(name)
        for partition in topic.partitions:
            if partition.leader not in self.brokers:
                raise Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"{name}-{partition.number}")
        return topic

    def leader_of(self, partition: TopicPartition) -> Broker | None:
        """Who leads it, as far as is known."""
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            return None
        return self.brokers.get(topic.partitions[partition.partition].leader)

    def why_missing(self, topic: str) -> Refused:
        """The error for a topic that the cluster does not show."""
        code = self.missing.get(topic, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return Refused(code, f"topic {topic}")

    def why_not_led(self, partition: TopicPartition) -> Refused:
        """The error for a partition of which no leader is known."""
        topic = self.topics.get(partition.topic)
        if topic is None:
            return self.why_missing(partition.topic)
        if not 0 <= partition.partition < len(topic.partitions):
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {partition}")
        return Refused(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {partition}")

    def without(self, topics: Collection[str]) -> "Topology":
        """What is known when what was known of these topics is not believed any more."""
        return replace(
            self,
            topics={name: topic for name, topic in self.topics.items() if name not in topics},
            missing={name: code for name, code in self.missing.items() if name not in topics},
        )

    def updated(self, answer: MetadataResponse) -> "Topology":
        """What is known after an answer: it replaces what was known of the topics in it."""
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
    """What to ask a broker about the cluster and these topics (None: all of them)."""
    asked = None if topics is None else tuple(RequestedTopic(name=name) for name in topics)
    return MetadataRequest(topics=asked, allow_auto_topic_creation=may_create)


def learned(before: Topology, topics: Collection[str] | None, answer: MetadataResponse) -> Topology:
    """What is known after such a question was answered. Refused."""
    raise_if_refused(answer.error_code, "the cluster's metadata")
    # Who has asked about all topics knows that there are no others.
    return (Topology() if topics is None else before).updated(answer)


def _topic(name: str, answered: metadata.Topic) -> Topic:
    partitions = (
        Partition(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            each.replica_nodes,
            each.isr_nodes,
            each.offline_replicas,
        )
        for each in answered.partitions
    )
    in_order = tuple(sorted(partitions, key=lambda partition: partition.number))
    return Topic(name, answered.topic_id, answered.is_internal, in_order)


def _broker(answered: metadata.Broker) -> Broker:
    return Broker(answered.node_id, Address(answered.host, answered.port), answered.rack)
