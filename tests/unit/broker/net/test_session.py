"""Sessions: every request goes through the handler of its session."""

import asyncio
from collections.abc import Awaitable
from typing import cast

import pytest

from ottla.broker.net.connection import Connection, FrameHandler
from ottla.broker.net.response_queue import PendingResponse, ResponseParts
from ottla.broker.net.session import ANONYMOUS, Session
from ottla.errors import ErrorCode, PeerError
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.settings.listeners import SecurityProtocol
from tests.support.broker.produce_and_fetch import only
from tests.support.broker.sessions import (
    HELLO,
    PRODUCE,
    SILENT,
    WAYS,
    begun,
    change_sessions,
    tell,
    written,
)
from tests.support.broker.simulated_broker import HOST, PORT, Client, Machine

API_VERSIONS = 18
BEFORE_AUTHENTICATION = {17, API_VERSIONS, 36}


class Gate:
    """Accepts only ApiVersions, as before authentication. With `opens`, that opens the gate."""

    def __init__(self, behind: FrameHandler, *, opens: bool) -> None:
        self.behind = behind
        self.opens = opens

    def handle(
        self, frame: memoryview, connection: Connection
    ) -> ResponseParts | PendingResponse | Awaitable[ResponseParts]:
        if int.from_bytes(frame[:2], "big") not in BEFORE_AUTHENTICATION:
            raise PeerError(ErrorCode.ILLEGAL_SASL_STATE, "not authenticated")
        if self.opens:
            connection.session.handler = self.behind
        return self.behind.handle(frame, connection)

    def gather(self, frame: memoryview, connection: Connection) -> bool:
        return False

    def gather_silent(self, frame: memoryview, connection: Connection) -> bool:
        return False


@pytest.mark.parametrize("way", WAYS)
def test_a_gate_refuses_requests_before_authentication(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(session: Session) -> None:
        session.handler = Gate(session.handler, opens=False)

    async def story(inside: Client, machine: Machine) -> None:
        change_sessions(monkeypatch, close)
        client = await machine.client()
        await client.exchange(HELLO)
        with pytest.raises(ConnectionError):
            await client.exchange(WAYS[way])
        assert await written(inside) == ([], {})

    tell(story)


@pytest.mark.parametrize("way", WAYS)
def test_a_gate_refuses_requests_behind_one_that_it_accepts(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def close(session: Session) -> None:
        session.handler = Gate(session.handler, opens=False)

    async def story(inside: Client, machine: Machine) -> None:
        change_sessions(monkeypatch, close)
        client = await machine.client()
        with pytest.raises(ConnectionError):
            await client.exchange(HELLO + WAYS[way])
        assert await written(inside) == ([], {})

    tell(story)


@pytest.mark.parametrize("way", WAYS)
def test_an_open_gate_passes_requests_on(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also within one piece: the next frame goes to the session's new handler."""

    def close(session: Session) -> None:
        session.handler = Gate(session.handler, opens=True)

    async def story(inside: Client, machine: Machine) -> None:
        change_sessions(monkeypatch, close)
        client = await machine.client()
        await client.exchange(HELLO + WAYS[way])
        await asyncio.sleep(1)
        assert await written(inside) != ([], {})

    tell(story)


@pytest.mark.parametrize("way", WAYS)
def test_a_gate_that_closes_refuses_all_further_requests(way: str) -> None:
    """Also after a produce without acks, behind which the next ones are gathered."""

    async def story(inside: Client, machine: Machine) -> None:
        client, session = await begun(machine)
        await client.send_bytes(SILENT * 2)
        await asyncio.sleep(1)
        session.handler = Gate(session.handler, opens=False)
        with pytest.raises(ConnectionError):
            await client.exchange(WAYS[way] * 2)
        assert await written(inside) == ([b"new"] * 2, {})

    tell(story)


def test_requests_gathered_before_a_gate_closed_are_answered_first() -> None:
    class Closing:
        """Gathers the first request, and closes the gate for the next one in the same turn."""

        def __init__(self, behind: FrameHandler) -> None:
            self.behind = behind

        def gather(self, frame: memoryview, connection: Connection) -> bool:
            connection.session.handler = Gate(self.behind, opens=False)
            asyncio.get_running_loop().call_soon(receive, connection, HELLO)
            return self.behind.gather(frame, connection)

    def receive(connection: Connection, sent: bytes) -> None:
        connection.get_buffer(-1)[: len(sent)] = sent
        connection.buffer_updated(len(sent))

    async def story(inside: Client, machine: Machine) -> None:
        client, session = await begun(machine)
        session.handler = cast("FrameHandler", Closing(session.handler))
        produced = decode_response(await client.exchange(PRODUCE), APIS[0], 9)
        assert only(produced).error_code == ErrorCode.NONE
        assert (await written(inside))[0] == [b"new"]

    tell(story)


def test_a_session_knows_its_listener() -> None:
    async def story(inside: Client, machine: Machine) -> None:
        _, session = await begun(machine)
        assert (session.principal, str(session.principal)) == (ANONYMOUS, "User:ANONYMOUS")
        assert session.listener == "PLAINTEXT"
        assert session.security_protocol is SecurityProtocol.PLAINTEXT
        assert session.quota.throttle_time_ms == 0
        assert (session.peer_host, session.local_address) == (HOST, (HOST, PORT))
        assert session.client_id is None

    tell(story)


@pytest.mark.parametrize("way", WAYS)
def test_a_session_knows_the_client_id_of_the_latest_request(way: str) -> None:
    sent = WAYS[way]

    async def story(inside: Client, machine: Machine) -> None:
        client, session = await begun(machine)
        for client_id in ("tests", "other"):
            await client.send_bytes(sent.replace(b"tests", client_id.encode()))
            await asyncio.sleep(1)
            assert session.client_id == client_id

    tell(story)
