"""Reassignments of replicas: begin, cancel, list (KIP-455)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.client.errors import Refused, raise_if_refused, refusal
from ottla.client.routing.router import Router
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    Partition,
    Topic,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.protocol.topic_partition import TopicPartition, by_topic


class Reassignment(NamedTuple):
    """A partition whose replicas are moving. `replicas` are all: also those that come or leave."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


async def list_reassignments(router: Router) -> dict[TopicPartition, Reassignment]:
    """All reassignments in progress, in the order of names. Refused."""
    request = ListPartitionReassignmentsRequest(
        timeout_ms=router.options.request_timeout_ms, topics=None
    )
    answer: ListPartitionReassignmentsResponse = await router.ask_controller(
        request, lambda answer: [answer.error_code]
    )
    raise_if_refused(answer.error_code, "reassignments", answer.error_message)
    found = {
        TopicPartition(topic.name, each.partition_index): Reassignment(
            each.replicas, each.adding_replicas, each.removing_replicas
        )
        for topic in answer.topics
        for each in topic.partitions
    }
    return dict(sorted(found.items()))


async def begin_reassignments(
    router: Router, targets: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, Refused | None]:
    """None for each partition whose replicas now move to its target. Refused if none do."""
    return await _alter(router, targets)


async def cancel_reassignments(
    router: Router, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, Refused | None]:
    """None for each partition that has its former replicas again. Refused if none have."""
    return await _alter(router, dict.fromkeys(partitions))


async def _alter(
    router: Router, targets: Mapping[TopicPartition, tuple[int, ...] | None]
) -> dict[TopicPartition, Refused | None]:
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=router.options.request_timeout_ms,
        topics=tuple(
            Topic(
                name=topic,
                partitions=tuple(
                    Partition(partition_index=each.partition, replicas=targets[each])
                    for each in partitions
                ),
            )
            for topic, partitions in by_topic(targets).items()
        ),
    )

    def codes(answer: AlterPartitionReassignmentsResponse) -> list[int]:
        inner = [each.error_code for topic in answer.responses for each in topic.partitions]
        return [answer.error_code, *inner]

    answer: AlterPartitionReassignmentsResponse = await router.ask_controller(request, codes)
    raise_if_refused(answer.error_code, "reassignment", answer.error_message)
    outcomes: dict[TopicPartition, Refused | None] = {}
    for topic in answer.responses:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            outcomes[partition] = refusal(
                each.error_code, f"reassignment of {partition}", each.error_message
            )
    return outcomes
