"""OffsetFetch (9) v1-10. Each group is answered by itself. Gaps: offsets are not committed in
transactions yet, so all of them are stable.
"""

from itertools import groupby

from ottla.broker.requests.authorization import group_resource, topic_resource
from ottla.broker.requests.call import Call
from ottla.coordinators.group.offsets import Offsets
from ottla.coordinators.group.records import OffsetCommitted
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.image import Image
from ottla.protocol.messages.offset_fetch import (
    Group,
    GroupResult,
    OffsetFetchRequest,
    OffsetFetchResponse,
    PartitionResult,
    Topic,
    TopicResult,
)
from ottla.protocol.primitives import NO_OFFSET, ZERO_UUID

BATCHED_SINCE = 8
TOPIC_IDS_SINCE = 10


async def handle(request: OffsetFetchRequest, call: Call) -> OffsetFetchResponse:
    if call.version < BATCHED_SINCE:
        group = Group(group_id=request.group_id, topics=request.topics)
        return OffsetFetchResponse(topics=await _fetch(group, call))
    return OffsetFetchResponse(
        groups=tuple([await _fetch_group(group, call) for group in request.groups])
    )


async def _fetch_group(group: Group, call: Call) -> GroupResult:
    try:
        return GroupResult(group_id=group.group_id, topics=await _fetch(group, call))
    except PeerError as error:
        call.count_refusal(error.code)
        return GroupResult(group_id=group.group_id, topics=(), error_code=error.code)


async def _fetch(group: Group, call: Call) -> tuple[TopicResult, ...]:
    """A group's committed offsets of the requested topics. PeerError if the group is refused."""
    call.require(group_resource(group.group_id))
    shard = call.services.coordinators.groups.of(group.group_id)
    image, by_id = call.services.image, call.version >= TOPIC_IDS_SINCE

    def look(_now_ms: int) -> tuple[TopicResult, ...]:
        machine = shard.machine
        machine.check_fetch(group.group_id, group.member_id, group.member_epoch)
        if group.topics is None:
            committed = _all_topics(machine.offsets, group.group_id, image, by_id)
            return tuple(topic for topic in committed if call.may(topic_resource(topic.name)))
        return tuple(_topic(machine.offsets, group.group_id, topic, call) for topic in group.topics)

    return await shard.read(look)


def _topic(offsets: Offsets, group_id: str, asked: Topic, call: Call) -> TopicResult:
    image, by_id = call.services.image, call.version >= TOPIC_IDS_SINCE
    topic = image.topic_by_id(asked.topic_id) if by_id else image.topic(asked.name)
    name = topic.name if topic else asked.name
    indexes = asked.partition_indexes
    if by_id and topic is None:
        partitions = tuple(_nothing(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes)
    elif not call.may(topic_resource(name)):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partitions = tuple(_nothing(index, code) for index in indexes)
    else:
        partitions = tuple(
            _partition(index, _current(offsets.get(group_id, name, index), image))
            for index in indexes
        )
    return TopicResult(name=asked.name, topic_id=asked.topic_id, partitions=partitions)


def _all_topics(
    offsets: Offsets, group_id: str, image: Image, by_id: bool
) -> tuple[TopicResult, ...]:
    """All committed offsets of existing topics. Responses by id leave out topics without one."""
    results = []
    current = (each for each in offsets.of(group_id) if _current(each, image))
    for name, committed in groupby(current, key=lambda each: each.topic):
        topic = image.topic(name)
        if by_id and topic is None:
            continue
        results.append(
            TopicResult(
                name=name,
                topic_id=topic.topic_id if topic else ZERO_UUID,
                partitions=tuple(_partition(each.partition, each) for each in committed),
            )
        )
    return tuple(results)


def _current(committed: OffsetCommitted | None, image: Image) -> OffsetCommitted | None:
    """None for an offset of a deleted topic, even if a new topic has its name.

    An offset without a topic id belongs to the topic that has the name.
    """
    if committed is None or committed.topic_id == ZERO_UUID:
        return committed
    return committed if image.topic_by_id(committed.topic_id) is not None else None


def _partition(index: int, committed: OffsetCommitted | None) -> PartitionResult:
    if committed is None:
        return _nothing(index, ErrorCode.NONE)
    return PartitionResult(
        partition_index=index,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=ErrorCode.NONE,
    )


def _nothing(index: int, code: ErrorCode) -> PartitionResult:
    return PartitionResult(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
    )
