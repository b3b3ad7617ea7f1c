"""OffsetForLeaderEpoch (23) v2-4. The end offsets of leader epochs, for clients and replicas that
have to truncate (KIP-101). Gaps: none.
"""

from ottla.broker.requests.authorization import topic_resource
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    Partition,
    PartitionResult,
    TopicResult,
)
from ottla.replication.lookup import find_replica
from ottla.replication.offsets import epoch_end


def handle(request: OffsetForLeaderEpochRequest, call: Call) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=tuple(
            TopicResult(
                topic=topic.topic,
                partitions=tuple(_answer(topic.topic, asked, call) for asked in topic.partitions),
            )
            for topic in request.topics
        )
    )


def _answer(topic: str, asked: Partition, call: Call) -> PartitionResult:
    services = call.services
    try:
        call.require(topic_resource(topic))
        replica = find_replica(services.partitions.replicas, services.image, topic, asked.partition)
        replica.partition.check_leadership(asked.current_leader_epoch)
        end = epoch_end(replica, asked.leader_epoch)
    except PeerError as error:
        call.count_refusal(error.code)
        return PartitionResult(error_code=error.code, partition=asked.partition)
    return PartitionResult(
        error_code=ErrorCode.NONE,
        partition=asked.partition,
        leader_epoch=end.epoch,
        end_offset=end.end_offset,
    )
