"""AlterPartition (56) v2-3. The controller changes the ISRs of partitions that a broker leads. Each
partition has its own answer. Only on the inter-broker listener. Gaps: v2, which has no broker
epochs, names the members' current incarnations.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode
from ottla.metadata.controller.entry_packing import in_entries
from ottla.metadata.controller.isr_changes import AskedIsr, altered_partitions
from ottla.metadata.controller.requesting_broker import require_current
from ottla.metadata.image import Image
from ottla.metadata.records import Partition as PartitionRecord
from ottla.metadata.records import Record
from ottla.metadata.values import Incarnation
from ottla.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    Partition,
    PartitionResult,
    TopicResult,
)
from ottla.protocol.primitives import NO_BROKER, NO_LEADER_EPOCH, Uuid

_EPOCHS_SINCE = 3


class Requested(NamedTuple):
    """One partition of a request."""

    topic_id: Uuid
    partition: Partition


Outcome = PartitionRecord | ErrorCode


async def handle(request: AlterPartitionRequest, call: Call) -> AlterPartitionResponse:
    """Answered when the new ISRs are committed. If this broker is not the controller, or the
    requester not registered, the whole request is refused."""
    call.require(CLUSTER)
    requester = Incarnation(request.broker_id, request.broker_epoch)
    asked = [
        Requested(topic.topic_id, each) for topic in request.topics for each in topic.partitions
    ]
    outcomes: list[Outcome] = []
    for portion in in_entries(asked):

        def decide(
            image: Image, portion: Sequence[Requested] = portion
        ) -> tuple[Sequence[Record], list[Outcome]]:
            require_current(image, requester)
            return altered_partitions(
                image, requester, [_asked(image, each, call.version) for each in portion]
            )

        outcomes += await call.services.controller.commit(decide)
    told = iter(zip(asked, outcomes, strict=True))
    return AlterPartitionResponse(
        error_code=ErrorCode.NONE,
        topics=tuple(
            TopicResult(
                topic_id=topic.topic_id,
                partitions=tuple(_result(*next(told), call) for _ in topic.partitions),
            )
            for topic in request.topics
        ),
    )


def _asked(image: Image, requested: Requested, version: int) -> AskedIsr:
    topic_id, partition = requested
    if version >= _EPOCHS_SINCE:
        isr = [
            Incarnation(each.broker_id, each.broker_epoch) for each in partition.new_isr_with_epochs
        ]
    else:
        isr = [_current(image, broker_id) for broker_id in partition.new_isr]
    return AskedIsr(
        topic_id,
        partition.partition_index,
        partition.leader_epoch,
        partition.partition_epoch,
        tuple(isr),
    )


def _current(image: Image, broker_id: int) -> Incarnation:
    broker = image.brokers.get(broker_id)
    return Incarnation(broker_id, -1) if broker is None else broker.incarnation


def _result(asked: Requested, outcome: Outcome, call: Call) -> PartitionResult:
    index = asked.partition.partition_index
    if isinstance(outcome, ErrorCode):
        call.count_refusal(outcome)
        return PartitionResult(
            partition_index=index,
            error_code=outcome,
            leader_id=NO_BROKER,
            leader_epoch=NO_LEADER_EPOCH,
            isr=(),
            partition_epoch=-1,
        )
    leader = outcome.leader
    return PartitionResult(
        partition_index=index,
        error_code=ErrorCode.NONE,
        leader_id=NO_BROKER if leader is None else leader.broker_id,
        leader_epoch=outcome.leader_epoch,
        isr=tuple(member.broker_id for member in outcome.isr),
        partition_epoch=outcome.partition_epoch,
    )
