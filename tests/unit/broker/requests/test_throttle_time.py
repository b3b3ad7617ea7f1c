"""The throttle time of a session's quota is in every response that has the field."""

from typing import Any

import pytest

from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.metadata import MetadataRequest, RequestedTopic
from tests.support.broker.group_requests import COMMIT_VERSION, commit
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, wanted
from tests.support.broker.sessions import (
    COMMIT,
    PRODUCE,
    begun,
    by_codec,
    change_sessions,
    tell,
)
from tests.support.broker.simulated_broker import Client, Machine, encoded

PRODUCE_KEY, OFFSET_COMMIT_KEY = 0, 8
METADATA = MetadataRequest(topics=(RequestedTopic(name="events"),))


class Seven:
    """A quota with a throttle time of 7 ms."""

    throttle_time_ms = 7
    response_bytes_max = 1 << 30

    def charge_response(self, size_bytes: int) -> bool:
        assert size_bytes > 0
        return False


# API key, version, and the bytes that are sent in one piece.
WAYS: dict[str, tuple[int, int, bytes]] = {
    "produce, gathered": (PRODUCE_KEY, 9, PRODUCE),
    "produce, alone": (PRODUCE_KEY, 9, PRODUCE * 2),
    "produce, by the codec": (PRODUCE_KEY, 9, by_codec(PRODUCE)),
    "produce that is refused": (PRODUCE_KEY, 9, encoded(produce("none", batch(b"new")), 9)),
    "produce, oldest": (PRODUCE_KEY, 3, encoded(produce("events", batch(b"new")), 3)),
    "commit, gathered": (OFFSET_COMMIT_KEY, COMMIT_VERSION, COMMIT),
    "commit, by the codec": (OFFSET_COMMIT_KEY, COMMIT_VERSION, by_codec(COMMIT)),
    "fetch": (1, 12, encoded(fetch("events", wanted()), 12)),
    "fetch that waits": (1, 12, encoded(fetch("events", wanted(), wait_ms=10), 12)),
    "metadata": (3, 12, encoded(METADATA, 12)),
    "metadata, classic": (3, 8, encoded(METADATA, 8)),
    "a request that is refused": (
        12,
        4,
        encoded(HeartbeatRequest(group_id="", generation_id=1, member_id="m"), 4),
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_quotas_throttle_time_is_in_the_response(way: str) -> None:
    key, version, sent = WAYS[way]

    async def story(inside: Client, machine: Machine) -> None:
        client, session = await begun(machine)
        # Also of what was encoded for somebody else.
        plain = decode_response(await inside.exchange(sent), APIS[key], version)
        assert plain.throttle_time_ms == 0
        session.quota = Seven()
        throttled = decode_response(await client.exchange(sent), APIS[key], version)
        assert throttled.throttle_time_ms == 7
        # Nothing else is said, and nobody else is told.
        if key == 3:
            throttled.throttle_time_ms = 0
            assert throttled == plain
            again = decode_response(await inside.exchange(sent), APIS[key], version)
            assert again == plain

    tell(story)


def test_gathered_requests_have_their_own_throttle_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quotas = [Seven(), None, Seven()]
    coming = iter(quotas)

    def throttle(session: Any) -> None:
        session.quota = next(coming) or session.quota

    async def story(inside: Client, machine: Machine) -> None:
        # What the segment has room for is known only behind its first batches.
        for _ in range(2):
            await inside.exchange(PRODUCE)
        change_sessions(monkeypatch, throttle)
        clients = [await machine.client() for _ in quotas]
        for client in clients:
            await client.send_bytes(PRODUCE)
        answers = [decode_response(await each.next_frame(), APIS[0], 9) for each in clients]
        assert [answer.throttle_time_ms for answer in answers] == [7, 0, 7]
        assert sorted(only(answer).base_offset for answer in answers) == [2, 3, 4]

    tell(story)


OLD = {
    "metadata": encoded(METADATA, 2),
    "commit": encoded(commit("g", "events", {0: 5}), 2),
    "heartbeat": encoded(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 0),
}


@pytest.mark.parametrize("sent", OLD)
def test_a_version_without_the_field_is_answered_without_it(sent: str) -> None:
    async def story(inside: Client, machine: Machine) -> None:
        client, session = await begun(machine)
        session.quota = Seven()
        assert await client.exchange(OLD[sent]) == await inside.exchange(OLD[sent])

    tell(story)
