"""AlterPartitionReassignments (45) v0-1. Each partition has its own answer, sent when the
reassignment has begun. Gaps: the timeout is ignored: the answer is sent when the change is made.
"""

from ottla.broker.requests import metadata_changes
from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.broker.requests.metadata_changes import PartitionOutcome
from ottla.errors import ErrorCode
from ottla.metadata.controller.partition_changes import reassigned
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    PartitionResult,
    Topic,
    TopicResult,
)


async def handle(
    request: AlterPartitionReassignmentsRequest, call: Call
) -> AlterPartitionReassignmentsResponse:
    """If a partition is named twice, the last target counts."""
    call.require(CLUSTER)
    may_change_factor = request.allow_replication_factor_change
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=may_change_factor,
        error_code=ErrorCode.NONE,
        # As in Kafka: null, but an empty string for an empty request.
        error_message=None if request.topics else "",
        responses=tuple(
            [await _reassign(topic, may_change_factor, call) for topic in request.topics]
        ),
    )


async def _reassign(topic: Topic, may_change_factor: bool, call: Call) -> TopicResult:
    targets = {each.partition_index: each.replicas for each in topic.partitions}

    def change(image: Image, index: int) -> Partition | None:
        return reassigned(
            image, topic.name, index, targets[index], may_change_factor=may_change_factor
        )

    outcomes = await metadata_changes.change_partitions(call.services, targets, change)
    for outcome in outcomes:
        if outcome.code is not ErrorCode.NONE:
            call.count_refusal(outcome.code)
    return TopicResult(name=topic.name, partitions=tuple(map(_result, outcomes)))


def _result(outcome: PartitionOutcome) -> PartitionResult:
    # Kafka sends no message with this code.
    is_idle = outcome.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    return PartitionResult(
        partition_index=outcome.partition_index,
        error_code=outcome.code,
        error_message=None if is_idle else outcome.message,
    )
