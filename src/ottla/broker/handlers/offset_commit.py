"""OffsetCommit (8) v2-10. Partitions that do not exist are refused by themselves. Gaps: none."""

from collections.abc import Awaitable, Hashable, Sequence
from typing import NamedTuple, cast

from ottla.broker.call import Call
from ottla.coordinators.decision import Decision
from ottla.coordinators.group.offsets import Commit
from ottla.coordinators.group.state import CommitWish
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.records import Topic as TopicRecord
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    Partition,
    PartitionResult,
    TopicResult,
)

TOPIC_IDS_SINCE = 10


class _Asked(NamedTuple):
    """What is to be committed, and for each partition of the request why it cannot be."""

    commits: list[Commit]
    # In the request's order; NONE for each of the commits.
    codes: list[ErrorCode]


def handle(
    request: OffsetCommitRequest, call: Call
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    asked = _asked(request, call)
    if not asked.commits:
        return _response(request, asked.codes)
    return _commit(request, call, asked)


async def _commit(request: OffsetCommitRequest, call: Call, asked: _Asked) -> OffsetCommitResponse:
    wish = CommitWish(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        call.version,
        request.retention_time_ms,
        asked.commits,
    )
    try:
        shard = call.services.shards.of(request.group_id)

        def decide(ticket: Hashable, now_ms: int) -> Decision:
            return shard.state.commit(wish, ticket, now_ms)

        committed = cast(Sequence[ErrorCode], await shard.ask(decide))
    except PeerError as error:
        call.services.metrics.request_refused(call.api.name, error.code.name)
        committed = [error.code] * len(asked.commits)
    coming = iter(committed)
    return _response(request, [code or next(coming) for code in asked.codes])


def _asked(request: OffsetCommitRequest, call: Call) -> _Asked:
    image = call.services.image
    asked = _Asked([], [])
    for topic in request.topics:
        if call.version >= TOPIC_IDS_SINCE:
            known, unknown = image.topic_by_id(topic.topic_id), ErrorCode.UNKNOWN_TOPIC_ID
        else:
            known, unknown = image.topic(topic.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in topic.partitions:
            if known is None:
                asked.codes.append(unknown)
            elif image.partition(known.topic_id, partition.partition_index) is None:
                asked.codes.append(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            else:
                asked.codes.append(ErrorCode.NONE)
                asked.commits.append(_commit_of(known, partition))
    return asked


def _commit_of(topic: TopicRecord, partition: Partition) -> Commit:
    return Commit(
        topic.name,
        topic.topic_id,
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata,
    )


def _response(request: OffsetCommitRequest, codes: Sequence[ErrorCode]) -> OffsetCommitResponse:
    coming = iter(codes)
    return OffsetCommitResponse(
        topics=tuple(
            TopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    PartitionResult(
                        partition_index=partition.partition_index, error_code=next(coming)
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
