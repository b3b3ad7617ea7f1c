"""A group with members of both protocols, on a whole broker."""

import asyncio
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages import join_group, sync_group
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.leave_group import LeaveGroupRequest, Member
from ottla.protocol.messages.list_groups import ListGroupsRequest
from tests.sim.seams.loop import run
from tests.support.broker.group_requests import QUICK, codes, commit, committed, find
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic, with_broker
from tests.support.coordinators.mixed_clients import subscription_bytes

SETTINGS = {**QUICK, "group_consumer_assignment_interval_ms": "0"}


async def join(client: Client, member_id: str, version: int = 5, group: str = "g") -> Any:
    return await client.ask(
        join_group.JoinGroupRequest(
            group_id=group,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id=member_id,
            protocol_type="consumer",
            protocols=(join_group.Protocol(name="range", metadata=subscription_bytes(["logs"])),),
        ),
        version,
    )


async def sync(client: Client, joined: Any, *, leads: bool = False) -> Any:
    # The leader's assignment of all partitions of the topic to its only member.
    every = (
        b"\x00\x01\x00\x00\x00\x01\x00\x04logs\x00\x00\x00\x02" + bytes(7) + b"\x01\xff\xff\xff\xff"
    )
    given = (sync_group.Assignment(member_id=joined.member_id, assignment=every),)
    return await client.ask(
        sync_group.SyncGroupRequest(
            group_id="g",
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            assignments=given if leads else (),
        ),
        3,
    )


async def classic_member(client: Client) -> Any:
    """A group of one classic member with both partitions of its topic."""
    await create(client, new_topic("logs", 2))
    await find(client, "g")
    joined = await join(client, (await join(client, "")).member_id)
    assert joined.error_code == ErrorCode.NONE
    assert (await sync(client, joined, leads=True)).error_code == ErrorCode.NONE
    return joined


async def beat(client: Client, joined: Any) -> ErrorCode:
    request = HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id
    )
    return ErrorCode((await client.ask(request)).error_code)


async def new_beat(client: Client, epoch: int, **said: Any) -> Any:
    if epoch == 0:
        said = {
            "rebalance_timeout_ms": 5_000,
            "subscribed_topic_names": ("logs",),
            "topic_partitions": (),
        }
    return await client.ask(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id="new", member_epoch=epoch, **said)
    )


async def kind(client: Client) -> list[tuple[str, str]]:
    answer = await client.ask(ListGroupsRequest(states_filter=(), types_filter=()))
    return [(each.group_type, each.group_state) for each in answer.groups]


def test_a_group_is_upgraded_by_its_first_consumer_member_and_downgraded_by_its_last() -> None:
    async def story(client: Client) -> None:
        old = await classic_member(client)
        assert await kind(client) == [("classic", "Stable")]
        joined = await new_beat(client, 0)
        assert (joined.error_code, joined.member_epoch) == (ErrorCode.NONE, 2)
        # The classic member has both partitions, is told to join again, and gives one up.
        assert joined.assignment.topic_partitions == ()
        assert await beat(client, old) is ErrorCode.REBALANCE_IN_PROGRESS
        old = await join(client, old.member_id)
        assert (old.error_code, old.generation_id, old.leader) == (ErrorCode.NONE, 2, "")
        assert b"\x00\x04logs\x00\x00\x00\x01" in (await sync(client, old)).assignment
        (given,) = (await new_beat(client, 2)).assignment.topic_partitions
        assert len(given.partitions) == 1
        assert await kind(client) == [("consumer", "Stable")]
        assert await beat(client, old) is ErrorCode.NONE

        assert (await new_beat(client, -1)).error_code == ErrorCode.NONE
        assert await kind(client) == [("classic", "PreparingRebalance")]
        assert await beat(client, old) is ErrorCode.REBALANCE_IN_PROGRESS
        old = await join(client, old.member_id)
        assert (old.generation_id, old.leader) == (3, old.member_id)
        assert (await sync(client, old, leads=True)).error_code == ErrorCode.NONE
        assert await kind(client) == [("classic", "Stable")]

    with_broker(story, **SETTINGS)


def test_a_mixed_group_is_described_and_survives_a_restart() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker(**SETTINGS) as client:
            old = await classic_member(client)
            await new_beat(client, 0)
            old = await join(client, old.member_id)
            request = commit("g", "logs", {0: 5}, member_id=old.member_id, generation=2)
            assert codes(await client.ask(request, 7)) == [ErrorCode.NONE]
        async with machine.broker(**SETTINGS) as client:
            await find(client, "g")
            assert await committed(client, "g") == {("logs", 0): 5}
            assert await beat(client, old) is ErrorCode.NONE
            asked = ConsumerGroupDescribeRequest(
                group_ids=("g",), include_authorized_operations=False
            )
            (group,) = (await client.ask(asked)).groups
            types = {each.member_id: each.member_type for each in group.members}
            assert types == {old.member_id: 0, "new": 1}
            (unknown,) = (await client.ask(DescribeGroupsRequest(groups=("g",)))).groups
            assert unknown.error_code == ErrorCode.GROUP_ID_NOT_FOUND

    run(tell(), clock=machine.clock)


def test_a_member_with_a_pending_join_has_joined_the_new_group() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        old = await classic_member(client)
        other = await machine.client()
        late = await join(other, "")
        waiting = asyncio.create_task(join(other, late.member_id))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        await new_beat(client, 0)
        answer = await waiting
        assert (answer.error_code, answer.leader, answer.members) == (ErrorCode.NONE, "", ())
        assert (await join(other, late.member_id)).error_code == ErrorCode.NONE
        leaving = (Member(member_id=late.member_id), Member(member_id="nobody"))
        left = await client.ask(LeaveGroupRequest(group_id="g", members=leaving))
        assert [each.error_code for each in left.members] == [0, ErrorCode.UNKNOWN_MEMBER_ID]
        assert await beat(client, old) is ErrorCode.REBALANCE_IN_PROGRESS
        other.close()

    with_broker(story, machine=machine, **SETTINGS)


@pytest.mark.parametrize(
    ("policy", "up", "taken_in", "after"),
    [
        ("bidirectional", ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, "classic"),
        ("upgrade", ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED, "consumer"),
        ("downgrade", ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.MEMBER_ID_REQUIRED, "classic"),
        (
            "disabled",
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "classic",
        ),
    ],
)
def test_the_migration_policy_limits_upgrades_and_downgrades(
    policy: str, up: ErrorCode, taken_in: ErrorCode, after: str
) -> None:
    async def story(client: Client) -> None:
        await classic_member(client)
        assert (await new_beat(client, 0)).error_code == up
        if not up:
            await new_beat(client, -1)
        assert [each for each, _ in await kind(client)] == [after]
        await find(client, "h")
        other = ConsumerGroupHeartbeatRequest(
            group_id="h",
            member_id="new",
            member_epoch=0,
            rebalance_timeout_ms=5_000,
            subscribed_topic_names=("logs",),
            topic_partitions=(),
        )
        assert (await client.ask(other)).error_code == ErrorCode.NONE
        assert (await join(client, "", group="h")).error_code == taken_in

    with_broker(story, **SETTINGS, group_consumer_migration_policy=policy)
