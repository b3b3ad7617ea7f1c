"""Fetches what comes next in partitions from their leaders: one round, no session."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, cast

from ottla.client.errors import raise_if_refused, refusal
from ottla.client.routing.outcomes import Outcomes
from ottla.protocol.isolation_level import Isolation
from ottla.protocol.messages import fetch as messages
from ottla.protocol.primitives import ZERO_UUID, Uuid
from ottla.protocol.topic_partition import TopicPartition, by_topic

# Named and not used: who asks by other means does without asyncio.
if TYPE_CHECKING:
    from ottla.client.connection.connection import Connection
    from ottla.client.routing.router import Router

# From the next version on topics are named by their ids, which not every broker tells.
_NAMED_BY_NAME_MAX = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """How long a leader may wait for records, and how much it may send."""

    isolation: Isolation = Isolation.READ_COMMITTED
    max_wait_ms: int = 500
    max_bytes: int = 16 << 20
    partition_max_bytes: int = 1 << 20


class Aborted(NamedTuple):
    """A producer's transaction that was aborted: its records from here to its marker are void."""

    producer_id: int
    first_offset: int


class Fetched(NamedTuple):
    """Whole batches, the last one perhaps cut, and which transactions in them were aborted."""

    records: memoryview
    aborted: tuple[Aborted, ...]


async def fetch(
    router: "Router", positions: Mapping[TopicPartition, int], limits: FetchLimits
) -> Outcomes[Fetched]:
    """What each partition has at its position, or nothing if after `max_wait_ms` none has any."""

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
    """What to ask a leader, and in which version at most; an id that is not known is zero."""
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
    return request, _NAMED_BY_NAME_MAX if ZERO_UUID in ids.values() else None


def fetched(
    answer: messages.FetchResponse, ids: Mapping[str, Uuid], leader: str
) -> Outcomes[Fetched]:
    """What a leader answered for each partition. Refused if it refused the whole."""
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
                # Decoded, records are always a view of the frame they came in.
                cast("memoryview", each.records) if each.records else memoryview(b""),
                tuple(
                    Aborted(aborted.producer_id, aborted.first_offset)
                    for aborted in each.aborted_transactions or ()
                ),
            )
    return outcomes
