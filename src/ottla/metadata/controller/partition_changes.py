"""Requested changes of single partitions: leader elections and replica reassignments.

Each takes the image and returns the changed partition, or None if nothing changes. A change that is
not possible is a PeerError with Kafka's code. Decides, does no I/O.
"""

from dataclasses import replace
from enum import IntEnum

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller import reassignment
from ottla.metadata.controller.partition_update import settled, successor
from ottla.metadata.controller.topic_changes import Replicas
from ottla.metadata.controller.unclean_election import NoEligibleReplica
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
    """The partition with its elected leader, which has lost no records.

    NoEligibleReplica if an unclean election has to compare log ends: `metadata.unclean_elections`.
    """
    partition = _named(image, topic, index)
    if election is Election.PREFERRED:
        return _preferred(image, partition)
    return _clean(image, partition)


def reassigned(
    image: Image, topic: str, index: int, target: Replicas | None, *, may_change_factor: bool
) -> Partition | None:
    """The partition on its way to the target; a target of None cancels the move in progress."""
    partition = _named(image, topic, index)
    if target is None:
        return reassignment.cancelled(image, partition)
    after = reassignment.started(image, partition, target, may_change_factor=may_change_factor)
    return None if after is partition else after


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


def _clean(image: Image, partition: Partition) -> Partition:
    """Elects an in-sync replica, else an eligible leader replica."""
    if partition.leader is not None:
        raise PeerError(ErrorCode.ELECTION_NOT_NEEDED, "Somebody leads already.")
    clean = settled(partition, image.brokers)
    if clean.leader is None:
        raise NoEligibleReplica
    return successor(partition, clean)
