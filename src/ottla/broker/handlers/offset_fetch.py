"""OffsetFetch (9) v1-10. Each group is answered by itself. From v7 on a client may require stable
offsets: a partition with an offset in an open transaction is refused (KIP-447). Gaps: none.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

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
    is_stable_required = request.require_stable
    if call.version < BATCHED_SINCE:
        group = Group(group_id=request.group_id, topics=request.topics)
        return OffsetFetchResponse(topics=await _fetch(group, call, is_stable_required))
    return OffsetFetchResponse(
        groups=tuple(
            [await _fetch_group(group, call, is_stable_required) for group in request.groups]
        )
    )


async def _fetch_group(group: Group, call: Call, is_stable_required: bool) -> GroupResult:
    try:
        topics = await _fetch(group, call, is_stable_required)
        return GroupResult(group_id=group.group_id, topics=topics)
    except PeerError as error:
        call.count_refusal(error.code)
        return GroupResult(group_id=group.group_id, topics=(), error_code=error.code)


async def _fetch(group: Group, call: Call, is_stable_required: bool) -> tuple[TopicResult, ...]:
    """A group's committed offsets of the requested topics. PeerError if the group is refused."""
    call.require(group_resource(group.group_id))
    shard = call.services.coordinators.groups.of(group.group_id)
    image, by_id = call.services.image, call.version >= TOPIC_IDS_SINCE

    def look(_now_ms: int) -> tuple[TopicResult, ...]:
        machine = shard.machine
        machine.check_fetch(group.group_id, group.member_id, group.member_epoch)
        offsets = _GroupOffsets(machine.offsets, group.group_id, image, is_stable_required)
        if group.topics is None:
            committed = _all_topics(offsets, by_id)
            return tuple(topic for topic in committed if call.may(topic_resource(topic.name)))
        return tuple(_topic(offsets, topic, call) for topic in group.topics)

    return await shard.read(look)


class _GroupOffsets(NamedTuple):
    """The offsets of one group, as a request sees them."""

    offsets: Offsets
    group_id: str
    image: Image
    is_stable_required: bool

    def all(self) -> Iterator[OffsetCommitted]:
        """The committed offsets of existing topics."""
        return (each for each in self.offsets.of(self.group_id) if self._is_current(each))

    def partition(self, topic: str, index: int) -> PartitionResult:
        pending = self.offsets.pending
        if self.is_stable_required and pending.has(self.group_id, topic, index):
            return _nothing(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = self.offsets.get(self.group_id, topic, index)
        if committed is None or not self._is_current(committed):
            return _nothing(index, ErrorCode.NONE)
        return PartitionResult(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            error_code=ErrorCode.NONE,
        )

    def _is_current(self, committed: OffsetCommitted) -> bool:
        """False for an offset of a deleted topic, even if a new topic has its name.

        An offset without a topic id belongs to the topic that has the name.
        """
        topic_id = committed.topic_id
        return topic_id == ZERO_UUID or self.image.topic_by_id(topic_id) is not None


def _topic(offsets: _GroupOffsets, asked: Topic, call: Call) -> TopicResult:
    by_id = call.version >= TOPIC_IDS_SINCE
    image = offsets.image
    topic = image.topic_by_id(asked.topic_id) if by_id else image.topic(asked.name)
    name = topic.name if topic else asked.name
    indexes = asked.partition_indexes
    if by_id and topic is None:
        partitions = tuple(_nothing(index, ErrorCode.UNKNOWN_TOPIC_ID) for index in indexes)
    elif not call.may(topic_resource(name)):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        partitions = tuple(_nothing(index, code) for index in indexes)
    else:
        partitions = tuple(offsets.partition(name, index) for index in indexes)
    return TopicResult(name=asked.name, topic_id=asked.topic_id, partitions=partitions)


def _all_topics(offsets: _GroupOffsets, by_id: bool) -> tuple[TopicResult, ...]:
    """All committed offsets of existing topics. Responses by id leave out topics without one.

    As in Kafka, a partition that has a pending offset only is left out.
    """
    results = []
    for name, committed in groupby(offsets.all(), key=lambda each: each.topic):
        topic = offsets.image.topic(name)
        if by_id and topic is None:
            continue
        results.append(
            TopicResult(
                name=name,
                topic_id=topic.topic_id if topic else ZERO_UUID,
                partitions=tuple(offsets.partition(name, each.partition) for each in committed),
            )
        )
    return tuple(results)


def _nothing(index: int, code: ErrorCode) -> PartitionResult:
    return PartitionResult(
        partition_index=index, committed_offset=NO_OFFSET, metadata="", error_code=code
    )
