"""How far a group has come: its committed offsets, read, set and deleted from outside."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.errors import raise_if_refused, refusal
from ottla.client.routing.coordinators import CoordinatorKey
from ottla.client.routing.outcomes import Outcomes
from ottla.protocol.messages import offset_commit, offset_delete, offset_fetch
from ottla.protocol.primitives import NO_LEADER_EPOCH
from ottla.protocol.topic_partition import TopicPartition, by_topic

# Named and not used: who asks by other means does without asyncio.
if TYPE_CHECKING:
    from ottla.client.routing.router import Router

# From the next version on many groups are asked about at once, in another form.
ONE_GROUP_MAX = 7
# From the next version on topics are named by their ids, which a topic that is gone has not.
NAMED_BY_NAME_MAX = 9


class Seat(NamedTuple):
    """Who commits: a member in a generation of its group."""

    generation: int
    member_id: str


# Commits from outside the group.
NO_MEMBER = Seat(-1, "")


class Committed(NamedTuple):
    """The offset of the next record to consume, and what was noted with it."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""


async def committed_offsets(router: "Router", group_id: str) -> dict[TopicPartition, Committed]:
    """All offsets of a group; a group that does not exist has none. Refused."""
    request = offset_fetch.OffsetFetchRequest(group_id=group_id, topics=None)
    answer: offset_fetch.OffsetFetchResponse = await router.ask_coordinator(
        CoordinatorKey(group_id),
        request,
        lambda answer: [answer.error_code],
        version_max=ONE_GROUP_MAX,
    )
    return committed(answer, group_id)


def committed(
    answer: offset_fetch.OffsetFetchResponse, group_id: str
) -> dict[TopicPartition, Committed]:
    """What a coordinator answered about all offsets of a group. Refused."""
    raise_if_refused(answer.error_code, f"offsets of group {group_id}")
    found = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = TopicPartition(topic.name, each.partition_index)
            raise_if_refused(each.error_code, f"offset of group {group_id} in {partition}")
            if each.committed_offset >= 0:
                found[partition] = Committed(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or ""
                )
    return dict(sorted(found.items()))


async def set_offsets(
    router: "Router",
    group_id: str,
    offsets: Mapping[TopicPartition, Committed],
    seat: Seat = NO_MEMBER,
) -> Outcomes[Committed]:
    """Sets offsets, as a member or, where a group has none, as nobody; it need not exist."""
    answer: offset_commit.OffsetCommitResponse = await router.ask_coordinator(
        CoordinatorKey(group_id),
        commit_request(group_id, offsets, seat),
        commit_codes,
        version_max=NAMED_BY_NAME_MAX,
    )
    return {
        partition: refusal(code, f"offset of group {group_id} in {partition}") or offsets[partition]
        for partition, code in _results(answer)
    }


def commit_request(
    group_id: str, offsets: Mapping[TopicPartition, Committed], seat: Seat = NO_MEMBER
) -> offset_commit.OffsetCommitRequest:
    """What to ask a coordinator that it may set offsets."""
    return offset_commit.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=seat.generation,
        member_id=seat.member_id,
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
    """Forgets offsets of topics that no member of the group is subscribed to. Refused."""
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
