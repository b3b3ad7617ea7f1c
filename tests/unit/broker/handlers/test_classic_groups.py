"""Classic groups of a whole broker: requests, responses, and restarts."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse, Protocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, Member
from ottla.protocol.messages.sync_group import Assignment, SyncGroupRequest, SyncGroupResponse
from tests.sim.seams.loop import run
from tests.support.broker.simulated_broker import Client, Machine, with_broker

GROUP = "readers"
ONE_PARTITION = {"offsets_topic_num_partitions": "1"}


async def _coordinated(client: Client, group_id: str = GROUP) -> None:
    """Creates the group's coordinator, by FindCoordinator."""
    while True:
        found = await client.ask(FindCoordinatorRequest(coordinator_keys=(group_id,)))
        if found.coordinators[0].error_code == ErrorCode.NONE:
            return
        await asyncio.sleep(0.1)


def _join(
    client: Client, member_id: str = "", *, version: int = 9, instance_id: str | None = None
) -> Coroutine[Any, Any, JoinGroupResponse]:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000 if version else -1,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=(Protocol(name="range", metadata=b"topics"),),
    )
    return client.ask(request, version)


def _sync(
    client: Client, joined: JoinGroupResponse, *, version: int = 5, **assigned: bytes
) -> Coroutine[Any, Any, SyncGroupResponse]:
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=tuple(
            Assignment(member_id=joined.member_id, assignment=assignment)
            for assignment in assigned.values()
        ),
    )
    return client.ask(request, version)


async def _joined(client: Client, instance_id: str | None = None) -> JoinGroupResponse:
    """Joins the group's next generation, in the newest version."""
    answer = await _join(client, instance_id=instance_id)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = await _join(client, answer.member_id)
    assert answer.error_code == ErrorCode.NONE
    return answer


async def _beat(client: Client, joined: JoinGroupResponse, instance: str | None = None) -> int:
    answer = await client.ask(
        HeartbeatRequest(
            group_id=GROUP,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            group_instance_id=instance,
        )
    )
    return int(answer.error_code)


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_and_syncs_in_every_version(version: int) -> None:
    async def story(client: Client) -> None:
        await _coordinated(client)
        joined = await _join(client, version=version)
        if version >= 4:
            assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
            assert joined.protocol_name == (None if version >= 7 else "")
            joined = await _join(client, joined.member_id, version=version)
        assert joined.error_code == ErrorCode.NONE
        assert joined.member_id.startswith("tests-")
        assert (joined.generation_id, joined.leader) == (1, joined.member_id)
        assert [member.metadata for member in joined.members] == [b"topics"]
        synced = await _sync(client, joined, version=min(version, 5), mine=b"all")
        assert (synced.error_code, synced.assignment) == (ErrorCode.NONE, b"all")

    with_broker(story, **ONE_PARTITION)


def test_two_connections_share_a_group_and_one_takes_over_from_the_other() -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await _coordinated(client)
        other = await machine.client()
        first, second = await asyncio.gather(_joined(client), _joined(other))
        assert first.generation_id == second.generation_id == 1
        assert first.leader == second.leader
        leads = first.leader == first.member_id
        assert [len(each.members) for each in (first, second)] == ([2, 0] if leads else [0, 2])
        answers = await asyncio.gather(
            _sync(client, first, mine=b"1"), _sync(other, second, mine=b"2")
        )
        assert {answer.error_code for answer in answers} == {ErrorCode.NONE}
        left = await client.ask(
            LeaveGroupRequest(group_id=GROUP, members=(Member(member_id=first.member_id),))
        )
        assert [member.error_code for member in left.members] == [ErrorCode.NONE]
        assert await _beat(other, second) == ErrorCode.REBALANCE_IN_PROGRESS
        alone = await _join(other, second.member_id)
        assert (alone.generation_id, len(alone.members)) == (2, 1)
        other.close()

    with_broker(story, machine=machine, **ONE_PARTITION)


def test_a_silent_member_is_removed_after_its_session_timeout() -> None:
    async def story(client: Client) -> None:
        await _coordinated(client)
        joined = await _joined(client)
        await _sync(client, joined, mine=b"1")
        await asyncio.sleep(9)
        assert await _beat(client, joined) == ErrorCode.NONE
        await asyncio.sleep(11)
        assert await _beat(client, joined) == ErrorCode.UNKNOWN_MEMBER_ID
        described = await client.ask(DescribeGroupsRequest(groups=(GROUP,)))
        assert described.groups[0].group_state == "Empty"

    with_broker(story, **ONE_PARTITION)


def test_a_group_survives_a_restart() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker(**ONE_PARTITION) as client:
            await _coordinated(client)
            joined = await _joined(client)
            await _sync(client, joined, mine=b"1")
            before = await client.ask(DescribeGroupsRequest(groups=(GROUP,)))
            assert before.groups[0].group_state == "Stable"
        async with machine.broker(**ONE_PARTITION) as client:
            await _coordinated(client)
            assert await _beat(client, joined) == ErrorCode.NONE
            assert (await _sync(client, joined)).assignment == b"1"
            after = await client.ask(DescribeGroupsRequest(groups=(GROUP,)))
            assert after.groups == before.groups

    run(tell(), clock=machine.clock)


def test_a_static_member_is_back_after_a_restart_without_a_rebalance() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker(**ONE_PARTITION) as client:
            await _coordinated(client)
            joined = await _joined(client, "i")
            await _sync(client, joined, mine=b"1")
        async with machine.broker(**ONE_PARTITION) as client:
            await _coordinated(client)
            back = await _joined(client, "i")
            assert (back.generation_id, back.skip_assignment) == (1, True)
            assert (await _sync(client, back)).assignment == b"1"
            assert await _beat(client, joined, "i") == ErrorCode.FENCED_INSTANCE_ID

    run(tell(), clock=machine.clock)


def test_waiting_members_get_a_response_or_a_disconnect_when_the_broker_stops() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker(**ONE_PARTITION) as client:
            await _coordinated(client)
            waiting = asyncio.create_task(_join(client, version=3))
            await asyncio.sleep(1)
            assert not waiting.done()
        try:
            answer = await waiting
        except ConnectionError:
            return
        assert answer.error_code == ErrorCode.NOT_COORDINATOR

    run(tell(), clock=machine.clock)


def test_an_unknown_group_is_refused_as_in_kafka() -> None:
    async def story(client: Client) -> None:
        await _coordinated(client)
        for version in range(5):
            beat = await client.ask(
                HeartbeatRequest(group_id="no-such-group", generation_id=1, member_id="x"), version
            )
            assert beat.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        left = await client.ask(
            LeaveGroupRequest(group_id="no-such-group", members=(Member(member_id="x"),))
        )
        assert left.error_code == ErrorCode.NONE
        assert [member.error_code for member in left.members] == [ErrorCode.UNKNOWN_MEMBER_ID]
        left = await client.ask(LeaveGroupRequest(group_id="no-such-group", member_id="x"), 2)
        assert left.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        synced = await client.ask(
            SyncGroupRequest(group_id="g", generation_id=1, member_id="x", assignments=())
        )
        assert synced.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        synced = await client.ask(
            SyncGroupRequest(group_id="", generation_id=1, member_id="x", assignments=()), 4
        )
        assert synced.error_code == ErrorCode.INVALID_GROUP_ID

    with_broker(story, **ONE_PARTITION)
