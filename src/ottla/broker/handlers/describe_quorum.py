"""DescribeQuorum (55) v0-2. The metadata quorum has one voter, the controller; offsets of its log
count entries. Gaps: none.
"""

from ottla.broker.requests.advertised_addresses import present_brokers
from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    Listener,
    Node,
    Partition,
    ReplicaState,
    RequestedTopic,
    Topic,
)

# The partition of the metadata log, as Kafka's tools name it.
METADATA_TOPIC = "__cluster_metadata"
METADATA_PARTITION = 0

_NODES_SINCE = 2


def handle(request: DescribeQuorumRequest, call: Call) -> DescribeQuorumResponse:
    """The state of the metadata quorum. Other partitions have no quorum."""
    call.require(CLUSTER)
    topics = tuple(_topic(topic, call) for topic in request.topics)
    has_nodes = call.version >= _NODES_SINCE and any(
        partition.error_code == ErrorCode.NONE for topic in topics for partition in topic.partitions
    )
    return DescribeQuorumResponse(
        error_code=ErrorCode.NONE,
        error_message="",
        topics=topics,
        nodes=(_controller(call),) if has_nodes else (),
    )


def _topic(topic: RequestedTopic, call: Call) -> Topic:
    return Topic(
        topic_name=topic.topic_name,
        partitions=tuple(
            _metadata_partition(call)
            if (topic.topic_name, each.partition_index) == (METADATA_TOPIC, METADATA_PARTITION)
            else _unknown_partition(each.partition_index)
            for each in topic.partitions
        ),
    )


def _metadata_partition(call: Call) -> Partition:
    services = call.services
    end = services.image.offset + 1
    voter = ReplicaState(
        replica_id=services.controller_id,
        log_end_offset=end,
        last_fetch_timestamp=services.now_ms,
        last_caught_up_timestamp=services.now_ms,
    )
    return Partition(
        partition_index=METADATA_PARTITION,
        error_code=ErrorCode.NONE,
        error_message="",
        leader_id=services.controller_id,
        leader_epoch=services.image.controller_epoch,
        high_watermark=end,
        current_voters=(voter,),
        observers=(),
    )


def _unknown_partition(index: int) -> Partition:
    return Partition(
        partition_index=index,
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        error_message="This partition has no quorum.",
        leader_id=0,
        leader_epoch=0,
        high_watermark=0,
        current_voters=(),
        observers=(),
    )


def _controller(call: Call) -> Node:
    """The controller, with its address on this client's listener."""
    controller_id = call.services.controller_id
    return Node(
        node_id=controller_id,
        listeners=tuple(
            Listener(name=call.session.listener, host=each.host, port=each.port)
            for each in present_brokers(call)
            if each.broker_id == controller_id
        ),
    )
