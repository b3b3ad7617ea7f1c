"""Clients over their quota get their responses, and then wait; nobody else does."""

import asyncio
from typing import Any, cast

import pytest

from ottla.broker.requests.client_quotas import BURST_S
from ottla.broker.requests.throttling import THROTTLE_MS_MAX
from ottla.protocol.exchange import decode_response, encode_request
from ottla.protocol.messages import APIS
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    Entity,
    Entry,
    Operation,
)
from tests.sim.seams.loop import run
from tests.support.broker.group_requests import COMMIT_VERSION, commit
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.sessions import tell
from tests.support.broker.simulated_broker import Client, Machine, create, new_topic

RATE = 10_000
VERSIONS = {0: 9, 1: 12, 8: COMMIT_VERSION}
# Beside the records, a request and a response have some bytes.
BIG = bytes(RATE * 2)


def framed(request: Any, key: int, client_id: str | None) -> bytes:
    parts = encode_request(7, APIS[key], VERSIONS[key], request, client_id)
    return b"".join(bytes(cast("bytes", part)) for part in parts)


async def ask(client: Client, key: int, request: Any, client_id: str | None = "slow") -> Any:
    answer = await client.exchange(framed(request, key, client_id))
    return decode_response(answer, APIS[key], VERSIONS[key])


async def set_quota(client: Client, key: str, rate: float | None, name: str | None) -> None:
    entry = Entry(
        entity=(Entity(entity_type="client-id", entity_name=name),),
        ops=(Operation(key=key, value=rate or 0.0, remove=rate is None),),
    )
    answer = await client.ask(AlterClientQuotasRequest(entries=(entry,), validate_only=False))
    assert [each.error_code for each in answer.entries] == [0]


def records(answer: Any) -> list[bytes | None]:
    return values(only(answer).records)


def now_s() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("acks", [1, 0, -1])
def test_a_producer_is_slowed_down_to_its_rate(acks: int) -> None:
    async def story(inside: Client, machine: Machine) -> None:
        await set_quota(inside, "producer_byte_rate", RATE, "slow")
        client = await machine.client()
        began_s, sent, throttled = now_s(), 60, 0
        for _ in range(sent):
            request = produce("events", batch(bytes(RATE // 2)), acks=acks)
            if acks:
                throttled += (await ask(client, 0, request)).throttle_time_ms > 0
            else:
                await client.send_bytes(framed(request, 0, "slow"))
        # It is answered after all others.
        await ask(client, 1, fetch("events", wanted(offset=sent - 1)))
        took_s = now_s() - began_s
        assert sent / 2 - BURST_S - 1 <= took_s <= sent / 2 - BURST_S + 2
        if acks:
            assert throttled > sent / 2

    tell(story)


def test_a_consumer_is_slowed_down_to_its_rate() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        count = 40
        for _ in range(count):
            await inside.ask(produce("events", batch(bytes(RATE))), 9)
        await set_quota(inside, "consumer_byte_rate", RATE, "slow")
        client = await machine.client()
        began_s, times_ms = now_s(), []
        for offset in range(count):
            answer = await ask(client, 1, fetch("events", wanted(offset=offset), bytes_max=1))
            assert records(answer) == [bytes(RATE)]
            times_ms.append(answer.throttle_time_ms)
        assert not any(times_ms[: BURST_S - 1])
        assert all(times_ms[BURST_S + 1 :])
        assert count - BURST_S - 2 <= now_s() - began_s <= count - BURST_S + 2

    tell(story)


def test_a_fetch_returns_no_more_than_the_burst() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        for _ in range(BURST_S * 2):
            await inside.ask(produce("events", batch(bytes(RATE))), 9)
        await set_quota(inside, "consumer_byte_rate", RATE, "slow")
        limited = await ask(await machine.client(), 1, fetch("events", wanted()))
        assert BURST_S - 2 <= len(records(limited)) <= BURST_S
        unlimited = await ask(await machine.client(), 1, fetch("events", wanted()), "fast")
        assert len(records(unlimited)) == BURST_S * 2

    tell(story)


def test_a_fetch_that_waits_is_charged_when_it_is_answered() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        await set_quota(inside, "consumer_byte_rate", 100, "slow")
        client = await machine.client()
        request = fetch("events", wanted(), wait_ms=10_000)
        coming = asyncio.ensure_future(ask(client, 1, request))
        await asyncio.sleep(1)
        await inside.ask(produce("events", batch(bytes(100 * BURST_S * 2))), 9)
        answer = await coming
        assert len(records(answer)) == 1
        assert answer.throttle_time_ms > 10_000
        assert now_s() < 2

    tell(story)


def test_the_next_request_waits_and_other_clients_do_not() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        await set_quota(inside, "producer_byte_rate", RATE, "slow")
        slow, fast = await machine.client(), await machine.client()
        overdrawn = produce("events", batch(bytes(RATE * (BURST_S + 5))))
        began_s = now_s()
        answer = await ask(slow, 0, overdrawn)
        assert 5_000 <= answer.throttle_time_ms <= 5_200
        assert now_s() - began_s < 1
        for _ in range(20):
            assert (await ask(fast, 0, overdrawn, "fast")).throttle_time_ms == 0
        assert (await ask(fast, 0, overdrawn, None)).throttle_time_ms == 0
        assert now_s() - began_s < 1
        # Whatever the request is, and also if several come at once.
        asked = commit("g", "events", {0: 5})
        await slow.send_bytes(framed(asked, 8, "slow") * 3)
        for _ in range(3):
            await slow.next_frame()
            assert 5 <= now_s() - began_s <= 6

    tell(story)


def test_connections_of_one_client_share_its_quota() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        await set_quota(inside, "producer_byte_rate", RATE, None)
        first, second = await machine.client(), await machine.client()
        used_up = produce("events", batch(bytes(RATE * BURST_S)))
        await ask(first, 0, used_up)
        assert (await ask(second, 0, produce("events", batch(BIG)))).throttle_time_ms >= 2_000
        # The default is for each client.
        other = await machine.client()
        answer = await ask(other, 0, produce("events", batch(BIG)), "other")
        assert answer.throttle_time_ms == 0

    tell(story)


def test_nobody_waits_longer_than_the_maximum_at_once() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        await set_quota(inside, "producer_byte_rate", 1, "slow")
        client = await machine.client()
        began_s = now_s()
        for turn in range(2):
            answer = await ask(client, 0, produce("events", batch(BIG)))
            assert answer.throttle_time_ms == THROTTLE_MS_MAX
            waited_s = turn * THROTTLE_MS_MAX / 1000
            assert waited_s <= now_s() - began_s <= waited_s + 1

    tell(story)


def test_a_quota_that_is_removed_applies_no_more() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        await set_quota(inside, "producer_byte_rate", RATE, "slow")
        client = await machine.client()
        used_up = produce("events", batch(bytes(RATE * (BURST_S + 1))))
        assert (await ask(client, 0, used_up)).throttle_time_ms > 0
        await set_quota(inside, "producer_byte_rate", None, "slow")
        assert (await ask(client, 0, used_up)).throttle_time_ms == 0
        began_s = now_s()
        assert (await ask(client, 0, used_up)).throttle_time_ms == 0
        assert now_s() - began_s < 1

    tell(story)


def test_a_client_that_leaves_while_it_waits_is_let_go() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.running() as (inside, node):
            await create(inside, new_topic("events"))
            await set_quota(inside, "producer_byte_rate", RATE, "slow")
            client = await machine.client()
            await ask(client, 0, produce("events", batch(bytes(RATE * (BURST_S + 5)))))
            await client.send_bytes(framed(produce("events", batch(b"late")), 0, "slow"))
            await asyncio.sleep(1)
            assert len(node._connections) == 2
            client.close()
            await asyncio.sleep(10)
            assert len(node._connections) == 1
            assert records(await inside.ask(fetch("events", wanted()), 12))

    run(story())


def test_quotas_outlive_a_restart_and_are_counted() -> None:
    machine = Machine()

    async def story() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("events"))
            await set_quota(client, "producer_byte_rate", RATE, "slow")
        async with machine.running() as (_, node):
            client = await machine.client()
            used_up = produce("events", batch(bytes(RATE * (BURST_S + 2))))
            answer = await ask(client, 0, used_up)
            assert answer.throttle_time_ms >= 2_000
            meter = node.metrics.request("Produce")
            assert meter.throttled == 1
            assert meter.throttled_s == answer.throttle_time_ms / 1000
            text = b"".join(node.metrics.render()).decode()
            assert 'ottla_request_throttled_total{api="Produce"} 1\n' in text

    run(story())
