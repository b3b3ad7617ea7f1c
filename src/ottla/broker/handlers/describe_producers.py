"""DescribeProducers (61) v0-0. The idempotent and transactional producers that a partition's leader
remembers. Gaps: none.
"""

from ottla.broker.requests.authorization import Unauthorized, topic_resource
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.topic_names import missing_topic_code
from ottla.metadata.values import AclResource
from ottla.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    Partition,
    Producer,
    RequestedTopic,
    Topic,
)
from ottla.replication.lookup import find_replica
from ottla.replication.replica import Replica


def handle(request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
    """A partition that is named twice is described once."""
    return DescribeProducersResponse(
        topics=tuple(
            Topic(
                name=topic.name,
                partitions=tuple(
                    _partition(topic, index, call)
                    for index in dict.fromkeys(topic.partition_indexes)
                ),
            )
            for topic in request.topics
        )
    )


def _partition(topic: RequestedTopic, index: int, call: Call) -> Partition:
    services = call.services
    if not call.may(topic_resource(topic.name)):
        unauthorized = Unauthorized(AclResource.TOPIC)
        return _refused(index, unauthorized.code, call, str(unauthorized))
    if services.image.topic(topic.name) is None:
        return _refused(index, missing_topic_code(topic.name), call, "There is no such topic.")
    try:
        replica = find_replica(services.partitions.replicas, services.image, topic.name, index)
        replica.partition.check_leadership()
    except PeerError as error:
        # If the topic exists, Kafka sends the code without a message.
        return _refused(index, error.code, call)
    return Partition(
        partition_index=index, error_code=ErrorCode.NONE, active_producers=_producers(replica)
    )


def _refused(index: int, code: ErrorCode, call: Call, message: str | None = None) -> Partition:
    call.count_refusal(code)
    return Partition(
        partition_index=index, error_code=code, error_message=message, active_producers=()
    )


def _producers(replica: Replica) -> tuple[Producer, ...]:
    if replica.log is None:
        return ()
    return tuple(
        Producer(
            producer_id=entry.producer_id,
            producer_epoch=entry.epoch,
            last_sequence=entry.last_sequence,
            last_timestamp=entry.last_timestamp_ms,
            coordinator_epoch=entry.coordinator_epoch,
            current_txn_start_offset=entry.transaction_first_offset,
        )
        for entry in replica.log.producers
    )
