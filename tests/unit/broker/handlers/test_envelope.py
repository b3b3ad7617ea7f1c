"""Envelopes: the client's principal decides, and nothing else than a forwarded request is taken."""

import asyncio
from typing import Any

import pytest

from ottla.broker.net.session import Principal, Session
from ottla.broker.requests.authorization import Resource
from ottla.errors import ErrorCode
from ottla.metadata.values import AclOperation
from ottla.protocol.exchange import decode_response
from ottla.protocol.messages import APIS
from ottla.protocol.messages.create_topics import CreateTopicsRequest
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.principal_data import encode_principal
from tests.support.broker.cluster import BROKERS_PORT, Cluster, with_cluster
from tests.support.broker.sessions import change_sessions, services_of
from tests.support.broker.simulated_broker import Client, encoded, new_topic

ALICE = encode_principal("User", "alice")
CREATE = 19
CREATION = CreateTopicsRequest(topics=(new_topic("events"),))


def frame_of(request: Any, version: int) -> bytes:
    return encoded(request, version)[4:]


def envelope(
    frame: bytes, principal: bytes | None = ALICE, address: bytes = bytes((10, 0, 0, 7))
) -> EnvelopeRequest:
    return EnvelopeRequest(
        request_data=frame, request_principal=principal, client_host_address=address
    )


async def topics(client: Client) -> list[str]:
    return [topic.name for topic in (await client.ask(MetadataRequest(topics=None))).topics]


INSIDE = envelope(frame_of(CREATION, 7))
HOSTILE: dict[str, EnvelopeRequest] = {
    "a nested envelope": envelope(frame_of(INSIDE, 0)),
    "a request that is not forwarded": envelope(frame_of(MetadataRequest(topics=None), 12)),
    "a request that is not served": envelope(b"\0\x1e\0\3" + bytes(20)),
    "an unknown key": envelope(b"\x7f\xff\0\0" + bytes(20)),
    "nothing": envelope(b""),
    "a header": envelope(frame_of(CREATION, 7)[:12]),
    "half a request": envelope(frame_of(CREATION, 7)[:-5]),
    "an oversized request": envelope(frame_of(CREATION, 7) + bytes(2 << 20)),
    "too many elements": envelope(
        frame_of(
            CreateTopicsRequest(
                topics=(new_topic("a", assignments=dict.fromkeys(range(20_001), (1,))),)
            ),
            7,
        )
    ),
    "no principal": envelope(frame_of(CREATION, 7), b""),
    "half a principal": envelope(frame_of(CREATION, 7), ALICE[:-2]),
    "a principal of a later version": envelope(frame_of(CREATION, 7), b"\0\1" + ALICE[2:]),
    "an address of three bytes": envelope(frame_of(CREATION, 7), address=bytes(3)),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_an_envelope_with_anything_else_is_refused_and_the_connection_goes_on(case: str) -> None:
    async def story(cluster: Cluster) -> None:
        broker = await cluster.client(1, BROKERS_PORT)
        answer = await broker.ask(HOSTILE[case])
        assert (answer.error_code, answer.response_data) == (ErrorCode.INVALID_REQUEST, None)
        assert await topics(broker) == []
        assert (await broker.ask(INSIDE)).error_code == ErrorCode.NONE
        assert await topics(broker) == ["events"]

    with_cluster(story, Cluster(1))


def test_a_version_that_the_controller_does_not_know_is_named_so() -> None:
    unknown = envelope(CREATE.to_bytes(2, "big") + (99).to_bytes(2, "big") + bytes(20))

    async def story(cluster: Cluster) -> None:
        broker = await cluster.client(1, BROKERS_PORT)
        assert (await broker.ask(unknown)).error_code == ErrorCode.UNSUPPORTED_VERSION
        assert await topics(broker) == []

    with_cluster(story, Cluster(1))


def test_an_envelope_that_exceeds_every_limit_ends_the_connection() -> None:
    async def story(cluster: Cluster) -> None:
        broker = await cluster.client(1, BROKERS_PORT)
        with pytest.raises(ConnectionError):
            await broker.ask(envelope(bytes(3 << 20)))
        assert await topics(await cluster.client(1)) == []

    with_cluster(story, Cluster(1))


def test_a_client_with_an_envelope_gets_nothing_on_its_own_listener() -> None:
    async def story(cluster: Cluster) -> None:
        for broker_id in (1, 2):
            client = await cluster.client(broker_id)
            for each in (INSIDE, *HOSTILE.values()):
                answer = await client.ask(each)
                refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                assert (answer.error_code, answer.response_data) == (refused, None)
            assert await topics(client) == []

    with_cluster(story)


def test_a_broker_that_is_not_the_controller_opens_no_envelope() -> None:
    async def story(cluster: Cluster) -> None:
        broker = await cluster.client(2, BROKERS_PORT)
        # Not even for what it could answer from its image, which may be behind.
        reading = envelope(frame_of(ListPartitionReassignmentsRequest(), 0))
        for each in (INSIDE, reading):
            answer = await broker.ask(each)
            assert (answer.error_code, answer.response_data) == (ErrorCode.NOT_CONTROLLER, None)
        assert await topics(broker) == []

    with_cluster(story)


class OnlyAlice:
    """Nobody else creates topics. Keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, AclOperation]] = []

    def allows(self, session: Session, operation: AclOperation, resource: Resource) -> bool:
        self.asked.append((str(session.principal), session.peer_host, operation))
        return operation is not AclOperation.CREATE or session.principal.name == "alice"

    def visibility(self, session: Session) -> object:
        return None


@pytest.mark.parametrize(
    ("name", "code"),
    [("alice", ErrorCode.NONE), ("mallory", ErrorCode.TOPIC_AUTHORIZATION_FAILED)],
)
def test_the_client_and_not_the_broker_needs_the_rights(
    name: str, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorizer = OnlyAlice()

    def authorize(session: Session) -> None:
        services_of(session).authorizer = authorizer
        if session.listener == "CLIENTS":
            session.principal = Principal("User", name)

    change_sessions(monkeypatch, authorize)

    async def story(cluster: Cluster) -> None:
        client = await cluster.client(2)
        (result,) = (await client.ask(CREATION)).topics
        assert result.error_code == code
        creators = {
            principal for principal, _, asked in authorizer.asked if asked is AclOperation.CREATE
        }
        assert creators == {f"User:{name}"}
        await asyncio.sleep(1)
        assert await topics(client) == (["events"] if code is ErrorCode.NONE else [])

    with_cluster(story)


def test_the_controller_sees_the_clients_address_and_its_answer_has_the_clients_correlation_id(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authorizer = OnlyAlice()

    def authorize(session: Session) -> None:
        services_of(session).authorizer = authorizer

    change_sessions(monkeypatch, authorize)

    async def story(cluster: Cluster) -> None:
        broker = await cluster.client(1, BROKERS_PORT)
        await asyncio.sleep(1)
        answer = await broker.ask(INSIDE)
        assert int.from_bytes(answer.response_data[:4], "big") == 7
        (result,) = decode_response(answer.response_data, APIS[CREATE], 7).topics
        assert result.error_code == ErrorCode.NONE
        assert ("User:alice", "10.0.0.7", AclOperation.CREATE) in authorizer.asked

    with_cluster(story, Cluster(1))
