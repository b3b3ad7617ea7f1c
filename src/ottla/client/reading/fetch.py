"""Fetches batches from the leaders of partitions, once and without a fetch session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.client.errors import raise_if_refused, refusal
from ottla.client.routing.outcomes import Outcomes
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages import fetch as messages
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.protocol.topic_partition import TopicPartition, by_topic

# For annotations only, so that the blocking client does not import asyncio.
if TYPE_CHECKING:
    from ottla.client.connection.connection import Connection
    from ottla.client.routing.router import Router

# The last version with topic names. Old brokers do not give topic ids.
_TOPIC_NAMES_VERSION_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """The limits of a fetch: wait time, and bytes in total and per partition."""

    isolation: Isolation = Isolation.READ_COMMITTED
    max_wait_ms: int = 500
    max_bytes: int = 16 << 20
    partition_max_bytes: int = 1 << 20


class Aborted(NamedTuple):
    """An aborted transaction: the producer's records from `first_offset` to its marker."""

    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """Batches, of which the last may be incomplete, and the aborted transactions in them."""

    records: memoryview
    aborted: tuple[Aborted, ...]


async def fetch(
    router: "Router", positions: Mapping[TopicPartition, int], limits: FetchLimits
) -> Outcomes[Fetched]:
    """The batches at each partition's position; none if `max_wait_ms` pass without records."""

    async def ask(leader: "Connection", partitions: Sequence[TopicPartition]) -> Outcomes[Fetched]:
        ids = {each.topic: router.topic_id(each.topic) for each in partitions}
        asked = {each: positions[each] for each in partitions}
        request, version_max = fetch_request(asked, ids, limits)
        answer: messages.FetchResponse = await leader.ask(request, version_max=version_max)
        return fetched(answer, ids, str(leader.address))

    return await router.ask_leaders(positions, ask)


def fetch_request(
    positions: Mapping[TopicPartition, int], ids: Mapping[str, Uuid], limits: FetchLimits
) -> tuple[messages.FetchRequest, int | None]:
    """The request to a leader, and its highest version. Unknown topic ids are ZERO_UUID."""
    request = messages.FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=1,
        max_bytes=limits.max_bytes,
        isolation_level=limits.isolation,
        topics=tuple(
            messages.Topic(
                topic=topic,
                topic_id=ids[topic],
                partitions=tuple(
                    messages.Partition(
                        partition=each.partition,
                        fetch_offset=positions[each],
                        partition_max_bytes=limits.partition_max_bytes,
                    )
                    for each in group
                ),
            )
            for topic, group in by_topic(positions).items()
        ),
    )
    return request, _TOPIC_NAMES_VERSION_MAX if ZERO_UUID in ids.values() else None


def fetched(
    answer: messages.FetchResponse, ids: Mapping[str, Uuid], leader: str
) -> Outcomes[Fetched]:
    """The outcome of each partition in a leader's response. Refused if the whole is refused."""
    raise_if_refused(answer.error_code, f"fetch from {leader}")
    names = {topic_id: topic for topic, topic_id in ids.items()}
    outcomes: Outcomes[Fetched] = {}
    for topic in answer.responses:
        for each in topic.partitions:
            partition = TopicPartition(
                topic.topic or names.get(topic.topic_id, ""), each.partition_index
            )
            refused = refusal(each.error_code, f"fetch of {partition}")
            outcomes[partition] = refused or Fetched(
                # The decoder returns records as a view of the frame.
                cast("memoryview", each.records) if each.records else memoryview(b""),
                tuple(
                    Aborted(aborted.producer_id, aborted.first_offset)
                    for aborted in each.aborted_transactions or ()
                ),
            )
    return outcomes
