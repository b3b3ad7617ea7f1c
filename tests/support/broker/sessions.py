"""Sessions, and requests for every path of a produce or a commit.

For tests that change a session's principal, frame handler or rights.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ottla.broker.net import connections
from ottla.broker.net.session import Session
from ottla.broker.requests.dispatch import Dispatch
from ottla.broker.requests.services import Services
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from tests.sim.seams.loop import run
from tests.sim.seams.wire import Conditions
from tests.support.broker.group_requests import COMMIT_VERSION, commit, committed, find
from tests.support.broker.produce_and_fetch import batch, fetch, only, produce, values, wanted
from tests.support.broker.simulated_broker import Client, Machine, create, encoded, new_topic


def change_sessions(patch: pytest.MonkeyPatch, change: Callable[[Session], None]) -> None:
    """Changes every session that begins from now on."""

    class Changed(Session):
        def __init__(self, *given: object) -> None:
            super().__init__(*given)  # type: ignore[arg-type]
            change(self)

    patch.setattr(connections, "Session", Changed)


def services_of(session: Session) -> Services:
    """The services of the session's node."""
    assert isinstance(session.handler, Dispatch)
    return session.handler._services


# Only frames that arrive in one piece are gathered.
IN_ONE_PIECE = Conditions(split_rate=0.0, gather_rate=0.0, latency_us_min=500, latency_us_max=500)


def by_codec(sent: bytes) -> bytes:
    """The same request with a trailing byte, which the native decoder declines."""
    return (len(sent) - 3).to_bytes(4, "big") + sent[4:] + b"\0"


HELLO = encoded(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
PRODUCE = encoded(produce("events", batch(b"new")), 9)
SILENT = encoded(produce("events", batch(b"new"), acks=0), 9)
COMMIT = encoded(commit("g", "events", {0: 5}), COMMIT_VERSION)

# The bytes that a client sends in one piece. Each is written unless it is refused.
WAYS = {
    "produce, gathered": PRODUCE,
    "produce, alone": PRODUCE + PRODUCE,
    "produce, by the codec": by_codec(PRODUCE),
    "produce without a reply": SILENT,
    "produce without a reply, by the codec": by_codec(SILENT),
    "produces without replies, gathered": SILENT * 20,
    "commit, gathered": COMMIT,
    "commit, alone": COMMIT + COMMIT,
    "commit, by the codec": by_codec(COMMIT),
}


def tell(story: Callable[[Client, Machine], Coroutine[Any, Any, None]]) -> None:
    """Runs a story with a broker that has a topic and a group's coordinator."""
    machine = Machine()
    machine.network.conditions = IN_ONE_PIECE

    async def begin() -> None:
        async with machine.broker() as client:
            await create(client, new_topic("events"))
            await find(client, "g")
            await committed(client, "g")
            await story(client, machine)

    run(begin(), clock=machine.clock)


async def written(client: Client) -> tuple[list[bytes | None], dict[tuple[str, int], int]]:
    """The records of the topic, and the group's offsets."""
    stored = only(await client.ask(fetch("events", wanted()), 12)).records
    return values(stored), await committed(client, "g")


async def begun(machine: Machine) -> tuple[Client, Session]:
    """A client, and the broker's session of its connection."""
    sessions: list[Session] = []
    with pytest.MonkeyPatch.context() as patched:
        change_sessions(patched, sessions.append)
        client = await machine.client()
        await asyncio.sleep(1)
    (session,) = sessions
    return client, session
