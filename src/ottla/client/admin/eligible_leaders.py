"""The replicas outside of the ISR that may lead a partition (KIP-966)."""

from collections.abc import Collection
from typing import NamedTuple

from ottla.client.errors import UnsupportedByBroker
from ottla.client.routing.router import Router
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    RequestedTopic,
)
from ottla.protocol.topic_partition import TopicPartition


class EligibleLeaders(NamedTuple):
    """`elr` have all committed records. `last_known_elr` had them, before they lost some."""

    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]


async def eligible_leaders(
    router: Router, topics: Collection[str]
) -> dict[TopicPartition, EligibleLeaders]:
    """Those of all partitions of these topics, by DescribeTopicPartitions.

    Nothing for topics that are refused, nor from brokers that do not serve it.
    """
    found: dict[TopicPartition, EligibleLeaders] = {}
    if not topics:
        # A request without topics asks for all of them.
        return found
    named = tuple(RequestedTopic(name=name) for name in sorted(topics))
    cursor: Cursor | None = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=named, cursor=cursor)
        try:
            answer: DescribeTopicPartitionsResponse = await router.ask_any(request)
        except UnsupportedByBroker:
            return found
        for topic in answer.topics:
            # A topic that is refused has no partitions here.
            for each in topic.partitions:
                partition = TopicPartition(topic.name or "", each.partition_index)
                found[partition] = EligibleLeaders(
                    each.eligible_leader_replicas or (), each.last_known_elr or ()
                )
        if answer.next_cursor is None or not answer.topics:
            return found
        cursor = answer.next_cursor
