"""DescribeLogEnds (20001) v0-0. The controller asks the replicas of a partition how far their logs
reach, before an unclean election. Not an API of Kafka. Only between brokers. Gaps: none.
"""

from ottla.protocol.codec import request, response, struct
from ottla.protocol.primitives import Uuid, i16, i32, i64


@struct
class Topic:
    topic_id: Uuid
    partition_indexes: tuple[i32, ...]


@request(key=20_001, versions=(0, 0), flexible=0)
class DescribeLogEndsRequest:
    topics: tuple[Topic, ...]


@struct
class PartitionResult:
    partition_index: i32
    error_code: i16
    # The leader epoch of the last batch; -1 if the log is empty.
    last_epoch: i32 = -1
    log_end_offset: i64 = -1


@struct
class TopicResult:
    topic_id: Uuid
    partitions: tuple[PartitionResult, ...]


@response(to=DescribeLogEndsRequest)
class DescribeLogEndsResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    # The incarnation that answers.
    broker_id: i32 = -1
    broker_epoch: i64 = -1
    topics: tuple[TopicResult, ...]
