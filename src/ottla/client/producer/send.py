"""Sends encoded batches to the leaders of their partitions."""

from collections.abc import Mapping, Sequence

from ottla.client.connection.connection import Connection
from ottla.client.errors import refusal
from ottla.client.routing.outcomes import Outcomes
from ottla.client.routing.router import Router
from ottla.protocol.acks import Acks
from ottla.protocol.messages.produce import Partition, ProduceRequest, ProduceResponse, Topic
from ottla.protocol.primitives import NO_OFFSET, ZERO_UUID, Uuid
from ottla.protocol.topic_partition import TopicPartition, by_topic

# The last version with topic names. Old brokers do not give topic ids.
_TOPIC_NAMES_VERSION_MAX = 12


async def produce(
    router: Router, batches: Mapping[TopicPartition, bytes | bytearray], acks: Acks
) -> Outcomes[int]:
    """The base offset of each batch; NO_OFFSET with Acks.NONE.

    A batch without a response is sent again, and may then be in the log twice.
    """

    async def ask(leader: Connection, partitions: Sequence[TopicPartition]) -> Outcomes[int]:
        grouped = by_topic(partitions)
        ids = {topic: router.topic_id(topic) for topic in grouped}
        request = ProduceRequest(
            acks=acks,
            timeout_ms=router.options.request_timeout_ms,
            topic_data=tuple(
                Topic(
                    name=topic,
                    topic_id=ids[topic],
                    partition_data=tuple(
                        Partition(index=each.partition, records=batches[each]) for each in group
                    ),
                )
                for topic, group in grouped.items()
            ),
        )
        version_max = _TOPIC_NAMES_VERSION_MAX if ZERO_UUID in ids.values() else None
        answer: ProduceResponse | None = await leader.ask(request, version_max=version_max)
        if answer is None:
            return dict.fromkeys(partitions, NO_OFFSET)
        names = {topic_id: topic for topic, topic_id in ids.items()}
        return _offsets(answer, names)

    return await router.ask_leaders(batches, ask)


def _offsets(answer: ProduceResponse, names: Mapping[Uuid, str]) -> Outcomes[int]:
    outcomes: Outcomes[int] = {}
    for topic in answer.responses:
        for each in topic.partition_responses:
            partition = TopicPartition(topic.name or names.get(topic.topic_id, ""), each.index)
            refused = refusal(each.error_code, f"records for {partition}", each.error_message)
            outcomes[partition] = refused or each.base_offset
    return outcomes
