"""The controller's decisions on topics: an image and a change give records and a reply.

Each is made on the newest image by `Controller.commit`, alone or with others in one entry of the
log, all or nothing. A change that is not allowed is a PeerError with Kafka's code.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.configs import topic_configs, validated_topic_configs
from ottla.metadata.controller.pending_topics import PendingTopics
from ottla.metadata.controller.replica_placement import UsableBroker, place_replicas
from ottla.metadata.image import Image
from ottla.metadata.records import Config, Partition, Record, Topic, TopicDeleted
from ottla.metadata.topic_names import check_topic_name
from ottla.metadata.values import BrokerState, Incarnation, ResourceKind
from ottla.protocol.primitives import Uuid
from ottla.settings.broker import BrokerSettings
from ottla.settings.table.replicas import (
    DEFAULT_REPLICATION_FACTOR,
    MIN_INSYNC_REPLICAS,
    NUM_PARTITIONS,
)
from ottla.settings.topic import TopicConfigs

# The new partitions of one change must fit one entry.
MAX_PARTITIONS_PER_CHANGE = 1_000
MAX_PARTITIONS_PER_TOPIC = 10_000
PARTITIONS_MAX = 100_000
REPLICATION_FACTOR_MAX = 6

# Stands for the default in the broker's settings.
DEFAULT = -1

Replicas = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create. With assignments, the two numbers must be -1."""

    name: str
    partitions: int = DEFAULT
    replication_factor: int = DEFAULT
    # The replicas of each partition, by index.
    assignments: Mapping[int, Replicas] = field(default_factory=dict)
    configs: Sequence[tuple[str, str | None]] = ()


class CreatedTopic(NamedTuple):
    """The reply to the creation of a topic."""

    topic_id: Uuid
    partitions: int
    replication_factor: int
    configs: TopicConfigs


# --- deciding ---------------------------------------------------------------------------------


def create_topic(
    pending: PendingTopics, new: NewTopic, settings: BrokerSettings, topic_id: Uuid, start: int
) -> tuple[list[Record], CreatedTopic]:
    """Creates a topic. `topic_id` must be unused; placement starts at `start`."""
    image = pending.image
    _check_new_name(pending, new.name)
    overrides = validated_topic_configs(new.configs)
    configs = TopicConfigs(overrides, settings)
    if new.assignments:
        replicas = _assigned(pending, new)
    else:
        replicas = _placed(pending, new, settings, start)
    topic = Topic(new.name, topic_id)
    records: list[Record] = [topic]
    records += _new_partitions(image, topic, 0, replicas, configs[MIN_INSYNC_REPLICAS])
    records += [
        Config(ResourceKind.TOPIC, new.name, key, value) for key, value in overrides.items()
    ]
    pending.add_topic(new.name, len(replicas))
    return records, CreatedTopic(topic_id, len(replicas), len(replicas[0]), configs)


def delete_topic(pending: PendingTopics, topic_id: Uuid) -> tuple[list[Record], Topic]:
    """Deletes a topic; a later topic of the same name never reuses its leader epochs."""
    topic = pending.image.topic_by_id(topic_id)
    if topic is None:
        raise PeerError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with id {topic_id}.")
    return [*pending.raise_first_epoch(topic), TopicDeleted(topic_id, topic.name)], topic


def create_partitions(
    pending: PendingTopics,
    name: str,
    count: int,
    assignments: Sequence[Replicas] | None,
    settings: BrokerSettings,
    start: int,
) -> tuple[list[Record], None]:
    """Adds partitions up to `count`, with the replication factor of the first one.

    While its replicas move, this is the one that it will have.
    """
    image = pending.image
    topic = image.topic(name)
    if topic is None:
        raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    present = image.partitions(topic.topic_id)
    if count <= len(present):
        raise _no_increase(name, len(present), count)
    more = count - len(present)
    _check_room(pending, more, count)
    replication_factor = len(present[0].replicas) - len(present[0].removing)
    if assignments is None:
        brokers = _usable_brokers(image, replication_factor)
        replicas = place_replicas(brokers, more, replication_factor, start)
    else:
        replicas = _more_assigned(image, assignments, more, replication_factor)
    min_isr = topic_configs(image, name, settings)[MIN_INSYNC_REPLICAS]
    pending.partitions += more
    return _new_partitions(image, topic, len(present), replicas, min_isr), None


# --- parts of decisions -----------------------------------------------------------------------


def _check_new_name(pending: PendingTopics, name: str) -> None:
    check_topic_name(name)
    if pending.has_topic(name):
        raise PeerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = pending.colliding_topic(name)
    if other is not None:
        raise PeerError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with topic '{other}': '.' and '_' are not told apart"
            " in the names of metrics",
        )


def _placed(
    pending: PendingTopics, new: NewTopic, settings: BrokerSettings, start: int
) -> list[Replicas]:
    """Placed replicas; the numbers are those of the request, or the default settings."""
    partitions, factor = new.partitions, new.replication_factor
    if factor == DEFAULT:
        factor = settings[DEFAULT_REPLICATION_FACTOR]
    if partitions == DEFAULT:
        partitions = settings[NUM_PARTITIONS]
    if factor < 1:
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"A replication factor of {factor}; allowed is 1 or more, or -1 for the default.",
        )
    if partitions < 1:
        raise PeerError(
            ErrorCode.INVALID_PARTITIONS,
            f"{partitions} partitions; allowed is 1 or more, or -1 for the default.",
        )
    _check_room(pending, partitions, partitions)
    return place_replicas(_usable_brokers(pending.image, factor), partitions, factor, start)


def _usable_brokers(image: Image, replication_factor: int) -> list[UsableBroker]:
    """The brokers that can get replicas. PeerError if there are too few."""
    brokers = [
        UsableBroker(broker.broker_id, broker.rack, broker.host)
        for _, broker in sorted(image.brokers.items())
        if broker.state is BrokerState.UP
    ]
    why = None
    if replication_factor > REPLICATION_FACTOR_MAX:
        why = f"{REPLICATION_FACTOR_MAX} is the most there can be"
    elif replication_factor > len(brokers):
        why = "1 broker is up" if len(brokers) == 1 else f"{len(brokers)} brokers are up"
    if why is not None:
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"A replication factor of {replication_factor}, where {why}.",
        )
    return brokers


def _assigned(pending: PendingTopics, new: NewTopic) -> list[Replicas]:
    """The requested replicas, by partition."""
    if new.partitions != DEFAULT or new.replication_factor != DEFAULT:
        raise PeerError(
            ErrorCode.INVALID_REQUEST,
            "With assignments the number of partitions and the replication factor must be -1.",
        )
    assignments = new.assignments
    if any(index not in assignments for index in range(len(assignments))):
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The assigned partitions are not numbered from 0 on without a gap.",
        )
    _check_room(pending, len(assignments), len(assignments))
    replicas = [assignments[index] for index in range(len(assignments))]
    _check_assignments(pending.image, replicas, len(replicas[0]))
    return replicas


def _more_assigned(
    image: Image, assignments: Sequence[Replicas], more: int, replication_factor: int
) -> list[Replicas]:
    if len(assignments) != more:
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"{len(assignments)} assignments for {more} new partitions.",
        )
    _check_assignments(image, assignments, replication_factor)
    return list(assignments)


def _check_assignments(
    image: Image, assignments: Sequence[Replicas], replication_factor: int
) -> None:
    for replicas in assignments:
        fault = assignment_fault(image, replicas, replication_factor)
        if fault:
            raise PeerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)


def assignment_fault(image: Image, replicas: Replicas, replication_factor: int) -> str | None:
    """Why a partition cannot have these replicas; None if it can.

    As in Kafka, brokers that are down may be assigned if one is up: they catch up later.
    """
    if not replicas:
        return "A partition is assigned to no broker."
    if len(replicas) != replication_factor:
        return (
            f"A partition is assigned to {len(replicas)} brokers,"
            f" the first one of the topic to {replication_factor}."
        )
    if len(replicas) > REPLICATION_FACTOR_MAX:
        return f"A partition is assigned to more than {REPLICATION_FACTOR_MAX} brokers."
    if len(set(replicas)) != len(replicas):
        return "A partition is assigned to a broker twice."
    for broker_id in replicas:
        if broker_id not in image.brokers:
            return f"A partition is assigned to broker {broker_id}, which is not registered."
    if not any(image.brokers[each].state is BrokerState.UP for each in replicas):
        return "A partition is assigned only to brokers that are not up."
    return None


def _new_partitions(
    image: Image, topic: Topic, first: int, assignments: Sequence[Replicas], min_isr: int
) -> list[Record]:
    """New partitions. They are empty, so that all replicas that are up are in sync."""
    first_epoch = image.first_epoch(topic.name)
    records: list[Record] = []
    for index, replicas in enumerate(assignments, first):
        isr: tuple[Incarnation, ...] = tuple(
            image.brokers[broker_id].incarnation
            for broker_id in replicas
            if image.brokers[broker_id].state is BrokerState.UP
        )
        records.append(
            Partition(
                topic_id=topic.topic_id,
                index=index,
                replicas=replicas,
                leader=isr[0],
                leader_epoch=first_epoch,
                isr=isr,
                min_isr=min_isr,
                partition_epoch=0,
            )
        )
    return records


def _check_room(pending: PendingTopics, more: int, in_topic: int) -> None:
    """PeerError if `more` new partitions, of a topic with then `in_topic`, are too many."""
    present = pending.partitions
    if more > MAX_PARTITIONS_PER_CHANGE:
        fault = f"{more} at once, {MAX_PARTITIONS_PER_CHANGE} are allowed; more can follow later"
    elif in_topic > MAX_PARTITIONS_PER_TOPIC:
        fault = f"{in_topic} of a topic, {MAX_PARTITIONS_PER_TOPIC} are allowed"
    elif present + more > PARTITIONS_MAX:
        fault = f"{present} and {more} more, {PARTITIONS_MAX} are allowed in all"
    else:
        return
    raise PeerError(ErrorCode.POLICY_VIOLATION, f"Too many partitions: {fault}.")


def _no_increase(name: str, present: int, count: int) -> PeerError:
    if count == present:
        message = f"Topic '{name}' has {present} partitions already."
    else:
        message = f"Topic '{name}' currently has {present} partitions; {count} would be fewer."
    return PeerError(ErrorCode.INVALID_PARTITIONS, message)
