"""Where a partition begins and ends, and which offset a time has."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.errors import refusal
from ottla.client.routing.outcomes import Outcomes
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    Partition,
    Topic,
)
from ottla.protocol.primitives import CONSUMER_REPLICA_ID
from ottla.protocol.topic_partition import TopicPartition, by_topic

# Named and not used: who asks by other means does without asyncio.
if TYPE_CHECKING:
    from ottla.client.connection.connection import Connection
    from ottla.client.routing.router import Router


class ListedOffset(NamedTuple):
    """An offset and its record's time; both -1 if no record is as late as was asked."""

    offset: int
    timestamp_ms: int


async def list_offsets(
    router: "Router",
    places: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> Outcomes[ListedOffset]:
    """The offset of each partition's place: an `OffsetSpec`, or of the first record since a time.

    Under READ_COMMITTED the end is the first offset of a transaction that is not over.
    """

    async def ask(
        leader: "Connection", partitions: Sequence[TopicPartition]
    ) -> Outcomes[ListedOffset]:
        asked = {each: places[each] for each in partitions}
        request = offsets_request(asked, isolation, router.options.request_timeout_ms)
        return listed(await leader.ask(request))

    return await router.ask_leaders(places, ask)


def offsets_request(
    places: Mapping[TopicPartition, int], isolation: Isolation, timeout_ms: int
) -> ListOffsetsRequest:
    """What to ask a leader about places in partitions that it leads."""
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=isolation,
        timeout_ms=timeout_ms,
        topics=tuple(
            Topic(
                name=topic,
                partitions=tuple(
                    Partition(partition_index=each.partition, timestamp=places[each])
                    for each in group
                ),
            )
            for topic, group in by_topic(places).items()
        ),
    )


def listed(answer: ListOffsetsResponse) -> Outcomes[ListedOffset]:
    """What a leader answered for each partition."""
    outcomes: Outcomes[ListedOffset] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            refused = refusal(each.error_code, f"offsets of {partition}")
            outcomes[partition] = refused or ListedOffset(each.offset, each.timestamp)
    return outcomes
