"""ListPartitionReassignments (46) v0-0. The partitions whose replicas are moving, of all topics or
of the named ones. Gaps: none.
"""

from collections.abc import Collection, Iterator

from ottla.broker.requests.authorization import CLUSTER
from ottla.broker.requests.call import Call
from ottla.errors import ErrorCode
from ottla.metadata.controller.partition_changes import is_moving
from ottla.metadata.image import Image
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    Partition,
    Topic,
)


def handle(
    request: ListPartitionReassignmentsRequest, call: Call
) -> ListPartitionReassignmentsResponse:
    """Topics and partitions that do not exist are left out."""
    call.require(CLUSTER)
    image = call.services.image
    asked: dict[str, Collection[int] | None]
    if request.topics is None:
        asked = dict.fromkeys(sorted(image.topic_names))
    else:
        asked = {topic.name: frozenset(topic.partition_indexes) for topic in request.topics}
    return ListPartitionReassignmentsResponse(
        error_code=ErrorCode.NONE, topics=tuple(_moving_topics(image, asked))
    )


def _moving_topics(image: Image, asked: dict[str, Collection[int] | None]) -> Iterator[Topic]:
    for name, indexes in asked.items():
        moving = tuple(_moving(image, name, indexes))
        if moving:
            yield Topic(name=name, partitions=moving)


def _moving(image: Image, name: str, indexes: Collection[int] | None) -> Iterator[Partition]:
    topic = image.topic(name)
    if topic is None:
        return
    for partition in image.partitions(topic.topic_id):
        if is_moving(partition) and (indexes is None or partition.index in indexes):
            yield Partition(
                partition_index=partition.index,
                replicas=partition.replicas,
                adding_replicas=partition.adding,
                removing_replicas=partition.removing,
            )
