"""Several listeners of one broker: any names, and an address for each of them."""

from typing import Any, cast

import pytest

from ottla.broker.net.session import Session
from ottla.broker.requests.authorization import Resource
from ottla.metadata.values import AclOperation
from ottla.protocol.messages.describe_cluster import DescribeClusterRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.settings.listeners import SecurityProtocol
from tests.sim.seams.loop import run
from tests.support.broker.sessions import change_sessions, services_of
from tests.support.broker.simulated_broker import HOST, PORT, Client, Machine, create, new_topic

OUTSIDE_PORT = 9093
TWO = {
    "listeners": f"INTERNAL://0.0.0.0:{PORT},OUTSIDE://0.0.0.0:{OUTSIDE_PORT}",
    "listener_security_protocol_map": "INTERNAL:PLAINTEXT,OUTSIDE:PLAINTEXT",
}
ADVERTISED = {"advertised_listeners": "INTERNAL://in.example:1,OUTSIDE://out.example:2"}
EVERYTHING = MetadataRequest(topics=None)


async def client_of(machine: Machine, port: int) -> Client:
    return cast("Client", await machine.net.connect(Client, HOST, port))


async def addresses(client: Client) -> set[tuple[str, int]]:
    """The broker's address in each response that has one."""
    metadata = await client.ask(EVERYTHING)
    cluster = await client.ask(DescribeClusterRequest(include_cluster_authorized_operations=False))
    found = await client.ask(FindCoordinatorRequest(coordinator_keys=("g",)))
    told = [*metadata.brokers, *cluster.brokers, *found.coordinators]
    return {(each.host, each.port) for each in told}


def tell(story: Any, **settings: str) -> None:
    machine = Machine()

    async def begin() -> None:
        async with machine.broker(**TWO, **settings) as inside:
            await story(inside, await client_of(machine, OUTSIDE_PORT), machine)

    run(begin(), clock=machine.clock)


def test_a_listener_of_any_name_is_opened_with_the_protocol_that_the_map_gives_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sessions: list[Session] = []
    change_sessions(monkeypatch, sessions.append)

    async def story(inside: Client, outside: Client, machine: Machine) -> None:
        await inside.ask(EVERYTHING)
        await outside.ask(EVERYTHING)
        assert [(each.listener, each.security_protocol) for each in sessions] == [
            ("INTERNAL", SecurityProtocol.PLAINTEXT),
            ("OUTSIDE", SecurityProtocol.PLAINTEXT),
        ]

    tell(story)


@pytest.mark.parametrize("is_outside_first", [False, True])
def test_each_client_gets_the_address_of_its_listener(
    is_outside_first: bool,
) -> None:
    async def story(inside: Client, outside: Client, machine: Machine) -> None:
        expected = [(inside, {("in.example", 1)}), (outside, {("out.example", 2)})]
        # Responses are cached for clients of the same listener.
        for client, told in (expected[::-1] if is_outside_first else expected) * 2:
            assert await addresses(client) == told

    tell(story, **ADVERTISED)


def test_without_advertised_listeners_each_client_gets_the_address_it_connected_to() -> None:
    async def story(inside: Client, outside: Client, machine: Machine) -> None:
        for _ in range(2):
            assert await addresses(inside) == {(HOST, PORT)}
            assert await addresses(outside) == {(HOST, OUTSIDE_PORT)}

    tell(story)


class Discreet:
    """Hides one topic from clients of the outside listener."""

    def allows(self, session: Session, operation: AclOperation, resource: Resource) -> bool:
        return session.listener != "OUTSIDE" or resource.name != "secret"

    def visibility(self, session: Session) -> object:
        return session.listener


def test_a_cached_response_of_one_listener_is_not_sent_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def authorize(session: Session) -> None:
        services_of(session).authorizer = Discreet()

    change_sessions(monkeypatch, authorize)

    async def story(inside: Client, outside: Client, machine: Machine) -> None:
        await create(inside, new_topic("events"), new_topic("secret"))
        for _ in range(2):
            told = [await client.ask(EVERYTHING) for client in (inside, outside)]
            assert [[each.name for each in one.topics] for one in told] == [
                ["events", "secret"],
                ["events"],
            ]
            assert [one.brokers[0].host for one in told] == ["in.example", "out.example"]

    tell(story, **ADVERTISED)
