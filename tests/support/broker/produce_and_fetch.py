"""Batches, and Produce and Fetch requests."""

from collections.abc import Sequence
from typing import Any

from ottla.protocol.batch import Record, build, records
from ottla.protocol.messages.fetch import FetchRequest, ForgottenTopic
from ottla.protocol.messages.fetch import Partition as FetchPartition
from ottla.protocol.messages.fetch import Topic as FetchTopic
from ottla.protocol.messages.produce import Partition, ProduceRequest, Topic
from ottla.protocol.primitives import Uuid

NOW_MS = 1_700_000_000_000
TopicKey = str | Uuid


def batch(
    *values: bytes, key: bytes | None = None, timestamp_ms: int = NOW_MS, **fields: Any
) -> bytearray:
    """One batch of these values; the first record has the time given, each next one a ms more."""
    return build(
        [
            Record(offset, timestamp_ms + offset, key, value)
            for offset, value in enumerate(values or (b"value",))
        ],
        **fields,
    )


def produce(
    topic: TopicKey,
    *batches: bytes | bytearray | None,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 1_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A request with one batch per partition, from `partition` on."""
    partitions = tuple(
        Partition(index=partition + number, records=records)
        for number, records in enumerate(batches)
    )
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=timeout_ms,
        topic_data=(
            Topic(name=topic, partition_data=partitions)
            if isinstance(topic, str)
            else Topic(topic_id=topic, partition_data=partitions),
        ),
    )


def wanted(
    partition: int = 0,
    offset: int = 0,
    *,
    bytes_max: int = 1 << 20,
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchPartition:
    return FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=bytes_max,
        current_leader_epoch=leader_epoch,
        last_fetched_epoch=last_fetched_epoch,
    )


def fetch(
    topic: TopicKey,
    *partitions: FetchPartition,
    wait_ms: int = 0,
    bytes_min: int = 1,
    bytes_max: int = 50 << 20,
    isolation: int = 0,
    session: tuple[int, int] = (0, -1),
    forget: Sequence[int] = (),
    replica_id: int = -1,
    rack: str = "",
) -> FetchRequest:
    """A request for partitions of one topic; `session` is its id and epoch."""
    is_named = isinstance(topic, str)
    names = {"topic": topic} if is_named else {"topic_id": topic}
    return FetchRequest(
        replica_id=replica_id,
        rack_id=rack,
        max_wait_ms=wait_ms,
        min_bytes=bytes_min,
        max_bytes=bytes_max,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=(FetchTopic(partitions=partitions, **names),) if partitions else (),
        forgotten_topics_data=(
            (ForgottenTopic(partitions=tuple(forget), **names),) if forget else ()
        ),
    )


def values(fetched: Any) -> list[bytes | None]:
    """The values of all complete batches in the records of a response."""
    found, position = [], 0
    view = memoryview(fetched)
    while position + 12 <= len(view):
        size = int.from_bytes(view[position + 8 : position + 12], "big") + 12
        if position + size > len(view):
            break
        found.extend(record.value for record in records(view[position : position + size]))
        position += size
    return found


def only(response: Any) -> Any:
    """The only partition of a response."""
    (topic,) = response.topics if hasattr(response, "topics") else response.responses
    (partition,) = (
        topic.partition_responses if hasattr(topic, "partition_responses") else topic.partitions
    )
    return partition
