"""The effect of a broker's settings on groups."""

import asyncio
from typing import Any

import pytest

from ottla.errors import ErrorCode
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, Protocol
from ottla.settings.development import DEVELOPMENT
from tests.sim.seams.loop import run
from tests.support.broker.group_requests import QUICK, find, join
from tests.support.broker.simulated_broker import Client, Machine, with_broker


def joining(session_timeout_ms: int = 10_000, rebalance_timeout_ms: int = 10_000) -> Any:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        member_id="",
        protocol_type="consumer",
        protocols=(Protocol(name="range", metadata=b""),),
    )


@pytest.mark.parametrize(
    ("session_timeout_ms", "code"),
    [
        (1_999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (2_000, ErrorCode.NONE),
        (3_000, ErrorCode.NONE),
        (3_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_a_session_is_neither_too_short_nor_too_long(
    session_timeout_ms: int, code: ErrorCode
) -> None:
    async def story(client: Client) -> None:
        await find(client, "g")
        assert (await client.ask(joining(session_timeout_ms), 3)).error_code == code

    with_broker(story, group_min_session_timeout_ms="2000", group_max_session_timeout_ms="3000")


@pytest.mark.parametrize(("settings", "seconds"), [({}, 3), (QUICK, 0)])
def test_a_new_group_waits_for_the_initial_rebalance_delay(
    settings: dict[str, str], seconds: int
) -> None:
    machine = Machine()

    async def story(client: Client) -> None:
        await find(client, "g")
        began_ns = machine.clock.steady_ns()
        assert (await client.ask(joining(), 3)).error_code == ErrorCode.NONE
        assert round((machine.clock.steady_ns() - began_ns) / 1e9, 1) == seconds

    with_broker(story, machine=machine, **settings)


def test_without_a_rebalance_delay_a_first_join_is_answered_at_once() -> None:
    machine = Machine()
    settings = {name.replace(".", "_"): value for name, value in DEVELOPMENT.items()}

    async def story(client: Client) -> None:
        await find(client, "g")
        began_ns = machine.clock.steady_ns()
        assert (await client.ask(joining(), 3)).error_code == ErrorCode.NONE
        # Only the time of the simulated network, without a delay for other members.
        assert machine.clock.steady_ns() - began_ns < 1e9

    with_broker(story, machine=machine, **settings)


def test_members_of_a_group_are_limited() -> None:
    machine = Machine()

    async def tell() -> None:
        async with machine.broker(**QUICK, group_max_size="1") as client:
            await find(client, "g")
            await join(client, "g")
            other = await machine.client()
            refused = await other.ask(joining(), 3)
            assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
            other.close()

    run(tell(), clock=machine.clock)


def test_members_survive_a_restart_and_get_a_new_session_timeout() -> None:
    machine = Machine()
    members: list[Any] = []

    async def beat(client: Client) -> int:
        request = HeartbeatRequest(
            group_id="g",
            generation_id=members[0].generation_id,
            member_id=members[0].member_id,
        )
        while True:
            code = int((await client.ask(request)).error_code)
            if code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return code
            await asyncio.sleep(0.01)

    async def first_life(client: Client) -> None:
        await find(client, "g")
        members.append(await join(client, "g"))
        await asyncio.sleep(9)

    async def second_life(client: Client) -> None:
        await asyncio.sleep(9)
        assert await beat(client) == ErrorCode.NONE
        await asyncio.sleep(11)
        assert await beat(client) == ErrorCode.UNKNOWN_MEMBER_ID

    with_broker(first_life, machine=machine, **QUICK)
    with_broker(second_life, machine=machine, **QUICK)
