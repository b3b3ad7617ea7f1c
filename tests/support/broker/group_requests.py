"""Requests about groups, as tests send them."""

import asyncio
from typing import Any

from ottla.errors import ErrorCode
from ottla.protocol.messages import join_group, offset_commit, offset_fetch, sync_group
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.broker.simulated_broker import Client

COMMIT_VERSION = 9
FETCH_VERSION = 9
# No initial rebalance delay, and short session timeouts.
QUICK = {"group_initial_rebalance_delay_ms": "0", "group_min_session_timeout_ms": "1000"}


async def find(client: Client, *group_ids: str) -> Any:
    """Looks up coordinators, all of which must exist."""
    response = await client.ask(FindCoordinatorRequest(coordinator_keys=group_ids))
    assert {each.error_code for each in response.coordinators} <= {0}
    return response.coordinators


def commit(
    group_id: str,
    topic: str,
    offsets: dict[int, int],
    *,
    metadata: str | None = "",
    member_id: str = "",
    generation: int = -1,
    **fields: Any,
) -> offset_commit.OffsetCommitRequest:
    """A commit request, by default of a simple consumer."""
    return offset_commit.OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=(
            offset_commit.Topic(
                name=topic,
                partitions=tuple(
                    offset_commit.Partition(
                        partition_index=index, committed_offset=offset, committed_metadata=metadata
                    )
                    for index, offset in offsets.items()
                ),
            ),
        ),
        **fields,
    )


def codes(response: Any) -> list[int]:
    """The error code of each partition of an OffsetCommit response."""
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


async def committed(client: Client, group_id: str) -> dict[tuple[str, int], int]:
    """All committed offsets of a group, after its coordinator has loaded."""
    request = offset_fetch.OffsetFetchRequest(
        groups=(offset_fetch.Group(group_id=group_id, topics=None),)
    )
    while True:
        (group,) = (await client.ask(request, FETCH_VERSION)).groups
        if group.error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            break
        await asyncio.sleep(0.01)
    assert group.error_code == ErrorCode.NONE
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
    }


async def join(
    client: Client, group_id: str, topic: str = "events", *, instance_id: str | None = None
) -> Any:
    """Joins as the only member of a group, with an empty assignment; the response to the join."""
    subscription = b"\x00\x00" + (1).to_bytes(4) + len(topic).to_bytes(2) + topic.encode()
    request = join_group.JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(
            join_group.Protocol(name="range", metadata=subscription + (0xFFFFFFFF).to_bytes(4)),
        ),
    )
    joined = await client.ask(request, 5 if instance_id else 3)
    assert joined.error_code == ErrorCode.NONE, joined
    synced = await client.ask(
        sync_group.SyncGroupRequest(
            group_id=group_id,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=(sync_group.Assignment(member_id=joined.member_id, assignment=b"all"),),
        ),
        2,
    )
    assert synced.error_code == ErrorCode.NONE, synced
    return joined
