"""Committed offsets of a group: fetched, committed and deleted, by members or from outside."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.errors import raise_if_refused, refusal
from ottla.client.routing.coordinators import CoordinatorKey
from ottla.client.routing.outcomes import Outcomes
from ottla.protocol.messages import offset_commit, offset_delete, offset_fetch
from ottla.protocol.primitives import NO_LEADER_EPOCH
from ottla.protocol.topic_partition import TopicPartition, by_topic

# For annotations only, so that the blocking client does not import asyncio.
if TYPE_CHECKING:
    from ottla.client.routing.router import Router

# The last version of OffsetFetch with one group per request.
ONE_GROUP_VERSION_MAX = 7
# The last version of OffsetCommit with topic names. A deleted topic has no id.
TOPIC_NAMES_VERSION_MAX = 9


class Generation(NamedTuple):
    """A member in a generation of its group, as Kafka's clients call it."""

    generation_id: int
    member_id: str


# Commits from outside the group.
NO_GENERATION = Generation(-1, "")


class CommittedOffset(NamedTuple):
    """A committed offset (of the next record to consume), with its leader epoch and metadata."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


async def committed_offsets(
    router: "Router", group_id: str
) -> dict[TopicPartition, CommittedOffset]:
    """All committed offsets of a group; none for a group that does not exist. Refused."""
    request = offset_fetch.OffsetFetchRequest(group_id=group_id, topics=None)
    answer: offset_fetch.OffsetFetchResponse = await router.ask_coordinator(
        CoordinatorKey(group_id),
        request,
        lambda answer: [answer.error_code],
        version_max=ONE_GROUP_VERSION_MAX,
    )
    return committed_in_response(answer, group_id)


def committed_in_response(
    answer: offset_fetch.OffsetFetchResponse, group_id: str
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets of a coordinator's response about all offsets of a group. Refused."""
    raise_if_refused(answer.error_code, f"offsets of group {group_id}")
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            raise_if_refused(each.error_code, f"offset of group {group_id} in {partition}")
            if each.committed_offset >= 0:
                found[partition] = CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return dict(sorted(found.items()))


async def commit_offsets(
    router: "Router",
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    generation: Generation = NO_GENERATION,
) -> Outcomes[CommittedOffset]:
    """Commits offsets, as a member or, if the group has no members, from outside.

    The group need not exist.
    """
    answer: offset_commit.OffsetCommitResponse = await router.ask_coordinator(
        CoordinatorKey(group_id),
        commit_request(group_id, offsets, generation),
        commit_codes,
        version_max=TOPIC_NAMES_VERSION_MAX,
    )
    return {
        partition: refusal(code, f"offset of group {group_id} in {partition}") or offsets[partition]
        for partition, code in _results(answer)
    }


def commit_request(
    group_id: str,
    offsets: Mapping[TopicPartition, CommittedOffset],
    generation: Generation = NO_GENERATION,
) -> offset_commit.OffsetCommitRequest:
    """The request to commit offsets."""
    return offset_commit.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation.generation_id,
        member_id=generation.member_id,
        topics=tuple(
            offset_commit.Topic(
                name=topic,
                partitions=tuple(
                    offset_commit.Partition(
                        partition_index=each.partition,
                        committed_offset=offsets[each].offset,
                        committed_leader_epoch=offsets[each].leader_epoch,
                        committed_metadata=offsets[each].metadata,
                    )
                    for each in own
                ),
            )
            for topic, own in by_topic(offsets).items()
        ),
    )


async def delete_offsets(
    router: "Router", group_id: str, partitions: Iterable[TopicPartition]
) -> Outcomes[None]:
    """Deletes offsets of topics to which no member of the group is subscribed. Refused."""
    request = offset_delete.OffsetDeleteRequest(
        group_id=group_id,
        topics=tuple(
            offset_delete.Topic(
                name=topic,
                partitions=tuple(
                    offset_delete.Partition(partition_index=each.partition) for each in own
                ),
            )
            for topic, own in by_topic(partitions).items()
        ),
    )
    answer: offset_delete.OffsetDeleteResponse = await router.ask_coordinator(
        CoordinatorKey(group_id), request, lambda answer: [answer.error_code, *commit_codes(answer)]
    )
    raise_if_refused(answer.error_code, f"offsets of group {group_id}")
    return {
        partition: refusal(code, f"offset of group {group_id} in {partition}")
        for partition, code in _results(answer)
    }


def _results(
    answer: offset_commit.OffsetCommitResponse | offset_delete.OffsetDeleteResponse,
) -> list[tuple[TopicPartition, int]]:
    return [
        (TopicPartition(topic.name, each.partition_index), each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    ]


def commit_codes(
    answer: offset_commit.OffsetCommitResponse | offset_delete.OffsetDeleteResponse,
) -> list[int]:
    """The error code of each partition."""
    return [code for _, code in _results(answer)]
