"""OffsetFetch (9) v1-10. v2 adds all topics of a group, v5 leader epochs (KIP-320), v7 stable
offsets only (KIP-447), v8 takes several groups (KIP-709), v9 adds member epochs (KIP-848), v10
topic ids (KIP-516). Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct, until
from ottla.protocol.primitives import ZERO_UUID, Uuid, i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class Topic:
    name: str = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partition_indexes: tuple[i32, ...]


@struct
class Group:
    group_id: str
    member_id: str | None = since(9, default=None, ignorable=True)
    member_epoch: i32 = since(9, default=-1, ignorable=True)
    topics: tuple[Topic, ...] | None


@request(key=9, versions=(1, 10), flexible=6)
class OffsetFetchRequest:
    group_id: str = until(7, default="")
    topics: tuple[Topic, ...] | None = until(7, default=(), nullable_since=2)
    groups: tuple[Group, ...] = since(8, default=())
    require_stable: bool = since(7, default=False)


@struct
class PartitionResult:
    partition_index: i32
    committed_offset: i64
    committed_leader_epoch: i32 = since(5, default=-1, ignorable=True)
    metadata: str | None
    error_code: i16


@struct
class TopicResult:
    name: str = until(9, default="", ignorable=True)
    topic_id: Uuid = since(10, default=ZERO_UUID, ignorable=True)
    partitions: tuple[PartitionResult, ...]


@struct
class GroupResult:
    group_id: str
    topics: tuple[TopicResult, ...]
    error_code: i16 = 0


@response(to=OffsetFetchRequest)
class OffsetFetchResponse:
    throttle_time_ms: i32 = since(3, default=0, ignorable=True)
    topics: tuple[TopicResult, ...] = until(7, default=())
    error_code: i16 = since(2, until=7, default=0, ignorable=True)
    groups: tuple[GroupResult, ...] = since(8, default=())


def refuse(request: OffsetFetchRequest, refusal: Refusal) -> OffsetFetchResponse:
    if refusal.version >= 8:
        return OffsetFetchResponse(
            groups=tuple(
                GroupResult(group_id=group.group_id, topics=(), error_code=refusal.code)
                for group in request.groups
            )
        )
    if refusal.version >= 2:
        return OffsetFetchResponse(error_code=refusal.code)
    return OffsetFetchResponse(
        topics=tuple(
            TopicResult(
                name=topic.name,
                partitions=tuple(
                    PartitionResult(
                        partition_index=index,
                        committed_offset=-1,
                        metadata="",
                        error_code=refusal.code,
                    )
                    for index in topic.partition_indexes
                ),
            )
            for topic in request.topics or ()
        )
    )
