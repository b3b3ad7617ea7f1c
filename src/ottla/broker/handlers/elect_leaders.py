"""ElectLeaders (43) v0-2. Each partition has its own answer; a request without partitions means all
of them, and its answer names those that needed an election. An unclean election compares the logs
of all live replicas; if one does not answer within the timeout it fails with REQUEST_TIMED_OUT.
Gaps: none.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ottla.broker.requests import metadata_changes
from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.broker.requests.metadata_changes import PartitionOutcome
from ottla.errors import ErrorCode, PeerError
from ottla.metadata.controller.partition_changes import Election, elected
from ottla.metadata.image import Image
from ottla.metadata.records import Partition
from ottla.metadata.values import PartitionId
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    TopicPartitions,
    TopicResult,
)
from ottla.protocol.topic_partition import TopicPartition
from ottla.settings.table.network import REQUEST_TIMEOUT_MS


async def handle(request: ElectLeadersRequest, call: Call) -> ElectLeadersResponse:
    call.require(CLUSTER)
    election = _election(request.election_type)
    asked = request.topic_partitions
    topics = list(_every_partition(call.services.image)) if asked is None else asked
    elected_topics = [await _elect(topic, election, call) for topic in topics]
    if election is Election.UNCLEAN:
        await _elect_by_log_ends(elected_topics, request.timeout_ms, call)
    results = [_result(each, call, include_needless=asked is not None) for each in elected_topics]
    return ElectLeadersResponse(error_code=ErrorCode.NONE, replica_election_results=tuple(results))


@dataclass(slots=True)
class _ElectedTopic:
    """A topic of a request, with the outcomes of its elections."""

    name: str
    outcomes: list[PartitionOutcome]


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


async def _elect(topic: TopicPartitions, election: Election, call: Call) -> _ElectedTopic:
    """Elects replicas that have lost no records."""

    def change(image: Image, index: int) -> Partition:
        return elected(image, topic.topic, index, election)

    indexes = dict.fromkeys(topic.partitions)
    outcomes = await metadata_changes.change_partitions(call.services, indexes, change)
    return _ElectedTopic(topic.topic, outcomes)


async def _elect_by_log_ends(topics: Sequence[_ElectedTopic], timeout_ms: int, call: Call) -> None:
    """Elects replicas that may have lost records, where there are no others."""
    services = call.services
    open_ids: dict[TopicPartition, PartitionId] = {}
    for topic in topics:
        known = services.image.topic(topic.name)
        if known is None:
            continue
        for outcome in topic.outcomes:
            if outcome.code is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE:
                name = TopicPartition(topic.name, outcome.partition_index)
                open_ids[name] = PartitionId(known.topic_id, outcome.partition_index)
    if not open_ids:
        return
    timeout_ms = max(0, min(timeout_ms, services.settings[REQUEST_TIMEOUT_MS]))
    errors = await services.metadata.unclean_elections.elect(tuple(open_ids.values()), timeout_ms)
    for topic in topics:
        for position, outcome in enumerate(topic.outcomes):
            name = TopicPartition(topic.name, outcome.partition_index)
            if name not in open_ids:
                continue
            error = errors[open_ids[name]]
            if error is None:
                services.logger.warning("unclean election", partition=str(name))
            topic.outcomes[position] = PartitionOutcome(
                outcome.partition_index,
                ErrorCode.NONE if error is None else error.code,
                None if error is None else str(error),
            )


def _result(topic: _ElectedTopic, call: Call, *, include_needless: bool) -> TopicResult:
    """`include_needless` keeps the results of partitions that need no election."""
    outcomes = topic.outcomes
    if not include_needless:
        outcomes = [each for each in outcomes if each.code is not ErrorCode.ELECTION_NOT_NEEDED]
    for outcome in outcomes:
        if outcome.code is not ErrorCode.NONE:
            call.count_refusal(outcome.code)
    return TopicResult(
        topic=topic.name,
        partition_result=tuple(
            PartitionResult(
                partition_id=outcome.partition_index,
                error_code=outcome.code,
                error_message=outcome.message,
            )
            for outcome in outcomes
        ),
    )
