"""AlterPartition (56) v2-3. A leader asks the controller for another ISR (KIP-497). v3 names the
members with their broker epochs (KIP-903). Only between brokers. Gaps: none.
"""

from ottla.protocol.codec import request, response, since, struct, until
from ottla.protocol.primitives import Uuid, i8, i16, i32, i64


@struct
class BrokerState:
    broker_id: i32
    broker_epoch: i64 = -1


@struct
class Partition:
    partition_index: i32
    leader_epoch: i32
    new_isr: tuple[i32, ...] = until(2, default=())
    new_isr_with_epochs: tuple[BrokerState, ...] = since(3, default=())
    leader_recovery_state: i8 = 0
    partition_epoch: i32


@struct
class Topic:
    topic_id: Uuid
    partitions: tuple[Partition, ...]


@request(key=56, versions=(2, 3), flexible=0)
class AlterPartitionRequest:
    broker_id: i32
    broker_epoch: i64 = -1
    topics: tuple[Topic, ...]


@struct
class PartitionResult:
    partition_index: i32
    error_code: i16
    leader_id: i32
    leader_epoch: i32
    isr: tuple[i32, ...]
    leader_recovery_state: i8 = 0
    partition_epoch: i32


@struct
class TopicResult:
    topic_id: Uuid
    partitions: tuple[PartitionResult, ...]


@response(to=AlterPartitionRequest)
class AlterPartitionResponse:
    throttle_time_ms: i32 = 0
    error_code: i16
    topics: tuple[TopicResult, ...]
