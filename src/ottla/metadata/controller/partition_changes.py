"""Requested changes of single partitions: leader elections and replica reassignments.

Each takes the image and returns the changed partition, or None if nothing changes. A change that is
not possible is a PeerError with Kafka's code. Decides, does no I/O.
"""

from dataclasses import replace
from enum import IntEnum

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.partition_update import (
    as_seen_by,
    settled,
    successor,
    with_unclean_leader,
)
from ottla.metadata.controller.topic_changes import Replicas, assignment_fault
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.metadata.values import BrokerState


class Election(IntEnum):
    """The type of an election, by Kafka's numbers."""

    # The first replica becomes the leader again.
    PREFERRED = 0
    # Any replica may become the leader, even if records are lost.
    UNCLEAN = 1


def is_moving(partition: Partition) -> bool:
    """Whether a reassignment of its replicas is in progress."""
    return bool(partition.adding or partition.removing)


def elected(image: Image, topic: str, index: int, election: Election) -> Partition:
    """The partition with its elected leader."""
    partition = _named(image, topic, index)
    if election is Election.PREFERRED:
        return _preferred(image, partition)
    return _unclean(image, partition)


def reassigned(
    image: Image, topic: str, index: int, target: Replicas | None, *, may_change_factor: bool
) -> Partition | None:
    """The partition with its replicas in the target's order; a target of None cancels a move.

    Replicas do not move between brokers yet: only their order, the leader preference, can change.
    """
    partition = _named(image, topic, index)
    if target is None:
        raise PeerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No replica of it is moving.")
    fault = assignment_fault(image, target, len(target))
    if fault:
        raise PeerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
    if len(target) != len(partition.replicas) and not may_change_factor:
        raise PeerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"It has {len(partition.replicas)} replicas, the target {len(target)}.",
        )
    if set(target) != set(partition.replicas):
        raise PeerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Replicas do not move between brokers yet."
        )
    if target == partition.replicas:
        return None
    return replace(partition, replicas=target, partition_epoch=partition.partition_epoch + 1)


# --- parts of decisions -----------------------------------------------------------------------


def _named(image: Image, topic: str, index: int) -> Partition:
    known = image.topic(topic)
    if known is None:
        raise PeerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{topic}'.")
    partition = image.partition(known.topic_id, index)
    if partition is None:
        raise PeerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic '{topic}' has no partition {index}."
        )
    return partition


def _preferred(image: Image, partition: Partition) -> Partition:
    preferred = partition.replicas[0]
    if partition.leader is not None and partition.leader.broker_id == preferred:
        raise PeerError(ErrorCode.ELECTION_NOT_NEEDED, "The preferred replica leads already.")
    broker = image.brokers.get(preferred)
    if (
        broker is None
        or broker.state is not BrokerState.UP
        or broker.incarnation not in partition.isr
    ):
        raise PeerError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"Broker {preferred} is not up, or not in sync.",
        )
    return successor(partition, replace(partition, leader=broker.incarnation))


def _unclean(image: Image, partition: Partition) -> Partition:
    """Elects an in-sync replica, else an eligible leader replica, else any replica that is up."""
    if partition.leader is not None:
        raise PeerError(ErrorCode.ELECTION_NOT_NEEDED, "Somebody leads already.")
    clean = settled(partition, image.brokers)
    if clean.leader is not None:
        return successor(partition, clean)
    brokers = as_seen_by(partition, image.brokers)
    for broker_id in partition.replicas:
        broker = brokers.get(broker_id)
        if broker is not None and broker.state is BrokerState.UP:
            return successor(partition, with_unclean_leader(clean, broker.incarnation))
    raise PeerError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "None of its brokers is up with its log."
    )
