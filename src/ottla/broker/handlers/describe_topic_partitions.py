"""DescribeTopicPartitions (75) v0. A long answer is paged: the next request begins at the cursor of
the last answer. Gaps: none.
"""

from collections.abc import Collection, Iterable, Iterator

from ottla.broker.requests.advertised_addresses import present_brokers
from ottla.broker.requests.authorization import topic_resource
from ottla.broker.requests.call import Call
from ottla.broker.requests.partition_description import (
    OfflineLogs,
    describe_partition,
    offline_logs,
)
from ottla.errors import ErrorCode, PeerError
from ottla.metadata import records
from ottla.metadata.topic_names import is_internal, missing_topic_code
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    Partition,
    Topic,
)
from ottla.protocol.primitives import ZERO_UUID

# Kafka's default of max.request.partition.size.limit.
MAX_PARTITIONS_PER_RESPONSE = 2000


def handle(request: DescribeTopicPartitionsRequest, call: Call) -> DescribeTopicPartitionsResponse:
    """Topics in the order of names, from the cursor up to the limit of partitions."""
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"A cursor at partition {cursor.partition_index}."
        )
    present = frozenset(broker.broker_id for broker in present_brokers(call))
    offline_at = offline_logs(call.services.image.brokers.values())
    room = max(1, min(request.response_partition_limit, MAX_PARTITIONS_PER_RESPONSE))
    topics: list[Topic] = []
    for name, first in _requested_topics(request, call):
        next_index = first
        if room:
            topic, is_whole = _topic(call, name, first, room, present, offline_at)
            topics.append(topic)
            room -= len(topic.partitions)
            next_index += len(topic.partitions)
            if is_whole:
                continue
        return DescribeTopicPartitionsResponse(
            topics=tuple(topics), next_cursor=Cursor(topic_name=name, partition_index=next_index)
        )
    return DescribeTopicPartitionsResponse(topics=tuple(topics))


def _requested_topics(
    request: DescribeTopicPartitionsRequest, call: Call
) -> Iterator[tuple[str, int]]:
    """Each topic with its first partition to describe; all visible topics if none is named."""
    cursor = request.cursor
    names: Iterable[str] = {topic.name for topic in request.topics}
    if not names:
        every = call.services.image.topic_names
        names = [name for name in every if call.may(topic_resource(name))]
    for name in sorted(names):
        if cursor is None or name > cursor.topic_name:
            yield name, 0
        elif name == cursor.topic_name:
            yield name, cursor.partition_index


def _topic(
    call: Call,
    name: str,
    first: int,
    room: int,
    present: Collection[int],
    offline_at: OfflineLogs,
) -> tuple[Topic, bool]:
    """A topic with its partitions from `first` on, and whether these are all of them."""
    if not call.may(topic_resource(name)):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return Topic(error_code=code, name=name, topic_id=ZERO_UUID, partitions=()), True
    image = call.services.image
    topic = image.topic(name)
    partitions = () if topic is None else image.partitions(topic.topic_id)[first:]
    answer = Topic(
        error_code=missing_topic_code(name) if topic is None else ErrorCode.NONE,
        name=name,
        topic_id=ZERO_UUID if topic is None else topic.topic_id,
        is_internal=is_internal(name),
        partitions=tuple(_partition(each, present, offline_at) for each in partitions[:room]),
        topic_authorized_operations=call.authorized_operations(topic_resource(name)),
    )
    return answer, len(partitions) <= room


def _partition(
    partition: records.Partition, present: Collection[int], offline_at: OfflineLogs
) -> Partition:
    error_code, leader_id, in_sync, offline = describe_partition(partition, present, offline_at)
    return Partition(
        error_code=error_code,
        partition_index=partition.index,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=in_sync,
        eligible_leader_replicas=tuple(member.broker_id for member in partition.elr),
        last_known_elr=partition.unclean,
        offline_replicas=offline,
    )
