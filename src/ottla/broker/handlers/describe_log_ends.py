"""DescribeLogEnds (20001) v0-0. The last leader epoch and the log end offset of each partition, as
this broker's disk has them. Only on the inter-broker listener. Gaps: none.
"""

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.values import PartitionId
from ottla.protocol.messages.describe_log_ends import (
    DescribeLogEndsRequest,
    DescribeLogEndsResponse,
    PartitionResult,
    TopicResult,
)
from ottla.protocol.primitives import Uuid
from ottla.replication.log_ends import log_end


def handle(request: DescribeLogEndsRequest, call: Call) -> DescribeLogEndsResponse:
    """Names the incarnation that answers: the controller asks about a certain one."""
    call.require(CLUSTER)
    services = call.services
    if services.inter_broker is None:
        raise PeerError(ErrorCode.INVALID_REQUEST, "There are no brokers that ask.")
    return DescribeLogEndsResponse(
        error_code=ErrorCode.NONE,
        broker_id=services.identity.node_id,
        broker_epoch=services.inter_broker.broker_epoch(),
        topics=tuple(
            TopicResult(
                topic_id=topic.topic_id,
                partitions=tuple(
                    _log_end(topic.topic_id, index, call) for index in topic.partition_indexes
                ),
            )
            for topic in request.topics
        ),
    )


def _log_end(topic_id: Uuid, index: int, call: Call) -> PartitionResult:
    services = call.services
    try:
        where = PartitionId(topic_id, index)
        end = log_end(services.partitions.replicas, services.image, where)
    except PeerError as error:
        call.count_refusal(error.code)
        return PartitionResult(partition_index=index, error_code=error.code)
    return PartitionResult(
        partition_index=index,
        error_code=ErrorCode.NONE,
        last_epoch=end.last_epoch,
        log_end_offset=end.end_offset,
    )
