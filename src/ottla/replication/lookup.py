"""Finds the replica of a partition by topic name or topic id."""

from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.protocol.primitives import Uuid
from ottla.replication.replica import Replica
from ottla.replication.replicas import Replicas

# A topic as the version of the request names it: by name, or by id.
TopicKey = str | bytes


class UnknownPartition(PeerError):
    """There is no such topic, or it has no such partition."""


def find_replica(replicas: Replicas, image: Image, topic: TopicKey, index: int) -> Replica:
    """The replica, if this broker has it and its log is usable. PeerError with the reason else."""
    replica = replicas.by_key.get((topic, index))
    if replica is None:
        raise _why_not(image, topic, index)
    if replica.is_unusable:
        # Not answered as empty: a consumer would reset its offset.
        raise PeerError(ErrorCode.KAFKA_STORAGE_ERROR, "its log could not be opened")
    return replica


def topic_name(image: Image, topic: TopicKey) -> str | None:
    """The name that is meant, whether there is such a topic or not; None for an unknown id."""
    if isinstance(topic, str):
        return topic
    known = image.topic_by_id(Uuid(topic))
    return None if known is None else known.name


def _why_not(image: Image, topic: TopicKey, index: int) -> PeerError:
    if isinstance(topic, str):
        known = image.topic(topic)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        known = image.topic_by_id(Uuid(topic))
        unknown = ErrorCode.UNKNOWN_TOPIC_ID
    if known is None:
        return UnknownPartition(unknown, "there is no such topic")
    if image.partition(known.topic_id, index) is None:
        return UnknownPartition(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{known.name} has no partition {index}"
        )
    return PeerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this broker does not have it")
