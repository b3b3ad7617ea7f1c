"""Elections of leaders that a tool asks for (KIP-460)."""

from collections.abc import Iterable
from enum import IntEnum

from ottla.client.errors import Refused, raise_if_refused, refusal
from ottla.client.routing.router import Router
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    TopicPartitions,
)
from ottla.protocol.topic_partition import TopicPartition, by_topic


class ElectionType(IntEnum):
    """Kafka's numbers."""

    # The first replica leads again, if it is in sync.
    PREFERRED = 0
    # Any replica may lead a partition that nobody leads, even if records are lost.
    UNCLEAN = 1


async def elect_leaders(
    router: Router, partitions: Iterable[TopicPartition], election: ElectionType
) -> dict[TopicPartition, Refused | None]:
    """None for each partition with a new leader. Refused if the request is."""
    request = ElectLeadersRequest(
        election_type=election,
        topic_partitions=tuple(
            TopicPartitions(topic=topic, partitions=tuple(each.partition for each in group))
            for topic, group in by_topic(partitions).items()
        ),
        timeout_ms=router.options.request_timeout_ms,
    )

    def codes(answer: ElectLeadersResponse) -> list[int]:
        results = answer.replica_election_results
        inner = [each.error_code for topic in results for each in topic.partition_result]
        return [answer.error_code, *inner]

    answer: ElectLeadersResponse = await router.ask_controller(request, codes)
    raise_if_refused(answer.error_code, "election of leaders")
    outcomes: dict[TopicPartition, Refused | None] = {}
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            partition = TopicPartition(topic.topic, each.partition_id)
            outcomes[partition] = refusal(
                each.error_code, f"leader of {partition}", each.error_message
            )
    return outcomes
