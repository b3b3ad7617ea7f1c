"""Fetch (1) v4-18. v5 adds the log start offset, v7 sessions (KIP-227), v9 leader epochs (KIP-320),
v11 racks (KIP-392), v12 diverging epochs (KIP-595), v13 topic ids (KIP-516), v15 the replica's
epoch (KIP-903), v16 the new leader's address (KIP-951), v17 directory ids (KIP-853), v18 the
follower's high watermark (KIP-1166). Gaps: none.
"""

from ottla.errors import ErrorCode
from ottla.protocol.codec import request, response, since, struct, tagged, until
from ottla.protocol.primitives import ZERO_UUID, StoredRecords, Uuid, i8, i16, i32, i64
from ottla.protocol.refusal import Refusal


@struct
class ReplicaState:
    replica_id: i32 = -1
    replica_epoch: i64 = -1


@struct
class Partition:
    partition: i32
    current_leader_epoch: i32 = since(9, default=-1, ignorable=True)
    fetch_offset: i64
    last_fetched_epoch: i32 = since(12, default=-1)
    log_start_offset: i64 = since(5, default=-1, ignorable=True)
    partition_max_bytes: i32
    replica_directory_id: Uuid = tagged(0, since=17, default=ZERO_UUID, ignorable=True)
    high_watermark: i64 = tagged(1, since=18, default=0x7FFF_FFFF_FFFF_FFFF, ignorable=True)


@struct
class Topic:
    topic: str = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: tuple[Partition, ...]


@struct
class ForgottenTopic:
    topic: str = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: tuple[i32, ...]


@request(key=1, versions=(4, 18), flexible=12)
class FetchRequest:
    cluster_id: str | None = tagged(0, since=12, default=None, ignorable=True)
    replica_id: i32 = until(14, default=-1)
    replica_state: ReplicaState | None = tagged(1, since=15, default=None)
    max_wait_ms: i32
    min_bytes: i32
    max_bytes: i32 = 0x7FFF_FFFF
    isolation_level: i8 = 0
    session_id: i32 = since(7, default=0, ignorable=True)
    session_epoch: i32 = since(7, default=-1, ignorable=True)
    topics: tuple[Topic, ...]
    forgotten_topics_data: tuple[ForgottenTopic, ...] = since(7, default=())
    rack_id: str = since(11, default="", ignorable=True)


@struct
class DivergingEpoch:
    epoch: i32 = -1
    end_offset: i64 = -1


@struct
class Leader:
    leader_id: i32 = -1
    leader_epoch: i32 = -1


@struct
class SnapshotId:
    end_offset: i64 = -1
    epoch: i32 = -1


@struct
class AbortedTransaction:
    producer_id: i64
    first_offset: i64


@struct
class PartitionResult:
    partition_index: i32
    error_code: i16
    high_watermark: i64
    last_stable_offset: i64 = -1
    log_start_offset: i64 = since(5, default=-1, ignorable=True)
    diverging_epoch: DivergingEpoch | None = tagged(0, since=12, default=None)
    current_leader: Leader | None = tagged(1, since=12, default=None)
    snapshot_id: SnapshotId | None = tagged(2, since=12, default=None)
    aborted_transactions: tuple[AbortedTransaction, ...] | None
    preferred_read_replica: i32 = since(11, default=-1)
    records: StoredRecords | None


@struct
class TopicResult:
    topic: str = until(12, default="", ignorable=True)
    topic_id: Uuid = since(13, default=ZERO_UUID, ignorable=True)
    partitions: tuple[PartitionResult, ...]


@struct
class NodeEndpoint:
    node_id: i32
    host: str
    port: i32
    rack: str | None = None


@response(to=FetchRequest)
class FetchResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = since(7, default=0, ignorable=True)
    session_id: i32 = since(7, default=0)
    responses: tuple[TopicResult, ...]
    node_endpoints: tuple[NodeEndpoint, ...] = tagged(0, since=16, default=())


def refuse(request: FetchRequest, refusal: Refusal) -> FetchResponse:
    # From v13 on the whole request is refused; older clients look at each partition.
    topics = () if refusal.version >= 13 else request.topics
    return FetchResponse(
        error_code=refusal.code,
        responses=tuple(
            TopicResult(
                topic=topic.topic,
                partitions=tuple(
                    refused_partition(partition.partition, refusal.code)
                    for partition in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


def refused_partition(index: int, code: ErrorCode) -> PartitionResult:
    """The answer for a partition that was not read. Its records are empty: null stalls clients."""
    return PartitionResult(
        partition_index=index,
        error_code=code,
        high_watermark=-1,
        aborted_transactions=(),
        records=b"",
    )
