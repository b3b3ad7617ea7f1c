"""ListOffsets: first and last offsets of partitions, and offsets by timestamp."""

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

# For annotations only, so that the blocking client does not import asyncio.
if TYPE_CHECKING:
    from ottla.client.connection.connection import Connection
    from ottla.client.routing.router import Router


class ListedOffset(NamedTuple):
    """An offset and its record's timestamp; both -1 if no record has such a timestamp."""

    offset: int
    timestamp_ms: int


async def list_offsets(
    router: "Router",
    specs: Mapping[TopicPartition, int],
    isolation: Isolation = Isolation.READ_UNCOMMITTED,
) -> Outcomes[ListedOffset]:
    """The offset of each partition for an `OffsetSpec` or a timestamp (the first record since it).

    Under READ_COMMITTED the latest offset is the last stable offset.
    """

    async def ask(
        leader: "Connection", partitions: Sequence[TopicPartition]
    ) -> Outcomes[ListedOffset]:
        asked = {each: specs[each] for each in partitions}
        request = offsets_request(asked, isolation, router.options.request_timeout_ms)
        return listed_offsets(await leader.ask(request))

    return await router.ask_leaders(specs, ask)


def offsets_request(
    specs: Mapping[TopicPartition, int], isolation: Isolation, timeout_ms: int
) -> ListOffsetsRequest:
    """The request to a leader."""
    return ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=isolation,
        timeout_ms=timeout_ms,
        topics=tuple(
            Topic(
                name=topic,
                partitions=tuple(
                    Partition(partition_index=each.partition, timestamp=specs[each])
                    for each in group
                ),
            )
            for topic, group in by_topic(specs).items()
        ),
    )


def listed_offsets(answer: ListOffsetsResponse) -> Outcomes[ListedOffset]:
    """The outcome of each partition in a leader's response."""
    outcomes: Outcomes[ListedOffset] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            refused = refusal(each.error_code, f"offsets of {partition}")
            outcomes[partition] = refused or ListedOffset(each.offset, each.timestamp)
    return outcomes
