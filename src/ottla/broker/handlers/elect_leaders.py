"""ElectLeaders (43) v0-2. Each partition has its own answer; a request without partitions means all
of them, and its answer names those that needed an election. Gaps: the timeout is ignored: the
answer is sent when the elections are over.
"""

from collections.abc import Iterator

from ottla.broker.requests import metadata_changes
from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.partition_changes import Election, elected
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    TopicPartitions,
    TopicResult,
)
from ottla.protocol.topic_partition import TopicPartition


async def handle(request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    call.require(CLUSTER)
    election = _election(request.election_type)
    asked = request.topic_partitions
    topics = list(_every_partition(call.services.image)) if asked is None else asked
    results = [
        await _elect(topic, election, call, include_needless=asked is not None) for topic in topics
    ]
    return ElectLeadersResponse(error_code=ErrorCode.NONE, replica_election_results=tuple(results))


def _election(number: int) -> Election:
    try:
        return Election(number)
    except ValueError:
        raise PeerError(
            ErrorCode.INVALID_REQUEST, f"There are no elections of type {number}."
        ) from None


def _every_partition(image: Image) -> Iterator[TopicPartitions]:
    for name in sorted(image.topic_names):
        topic = image.topic(name)
        if topic is not None:
            indexes = tuple(partition.index for partition in image.partitions(topic.topic_id))
            yield TopicPartitions(topic=name, partitions=indexes)


async def _elect(
    topic: TopicPartitions, election: Election, call: Call, *, include_needless: bool
) -> TopicResult:
    """`include_needless` keeps the results of partitions that need no election."""

    def change(image: Image, index: int) -> Partition:
        return elected(image, topic.topic, index, election)

    services = call.services
    outcomes = await metadata_changes.change_partitions(
        services, dict.fromkeys(topic.partitions), change
    )
    if not include_needless:
        outcomes = [each for each in outcomes if each.code is not ErrorCode.ELECTION_NOT_NEEDED]
    for outcome in outcomes:
        if outcome.code is not ErrorCode.NONE:
            call.count_refusal(outcome.code)
        elif election is Election.UNCLEAN:
            name = TopicPartition(topic.topic, outcome.partition_index)
            services.logger.warning("unclean election", partition=str(name))
    return TopicResult(
        topic=topic.topic,
        partition_result=tuple(
            PartitionResult(
                partition_id=outcome.partition_index,
                error_code=outcome.code,
                error_message=outcome.message,
            )
            for outcome in outcomes
        ),
    )
