"""Requests between brokers are accepted on their listener, from those who may send them."""

import asyncio
from typing import Any

import pytest

from ottla.broker.inter_broker.listener import registered_endpoints, require_reachable
from ottla.broker.net.session import Session
from ottla.broker.requests.authorization import CLUSTER, Resource
from ottla.broker.requests.served_apis import INTER_BROKER, SERVED
from ottla.errors import ErrorCode
from ottla.metadata.memory import MemoryEnsemble
from ottla.metadata.values import AclOperation
from ottla.protocol.messages import APIS
from ottla.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.messages.alter_partition import AlterPartitionRequest
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.describe_log_ends import DescribeLogEndsRequest
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.report_offline_logs import ReportOfflineLogsRequest
from ottla.settings.setting import BadSetting
from ottla.settings.sources import load
from ottla.settings.table.node import LISTENERS as LISTENERS_SETTING
from tests.sim.seams.loop import run
from tests.support.broker.cluster import BROKERS_PORT, Cluster, with_cluster
from tests.support.broker.sessions import change_sessions, services_of
from tests.support.broker.shared_metadata import SimStoreFactory
from tests.support.broker.simulated_broker import PORT, Client, Machine, with_broker

REQUESTS: dict[int, Any] = {
    56: AlterPartitionRequest(broker_id=2, broker_epoch=1, topics=()),
    58: EnvelopeRequest(request_data=b"", request_principal=None, client_host_address=bytes(4)),
    67: AllocateProducerIdsRequest(broker_id=2, broker_epoch=-1),
    20_000: ReportOfflineLogsRequest(broker_id=2, broker_epoch=1, topics=()),
    20_001: DescribeLogEndsRequest(topics=()),
}
REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
VERSIONS = ApiVersionsRequest(client_software_name="t", client_software_version="1")


async def offered(client: Client) -> set[int]:
    return {each.api_key for each in (await client.ask(VERSIONS)).api_keys}


def test_every_api_between_brokers_is_tested_here() -> None:
    assert REQUESTS.keys() == INTER_BROKER


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: APIS[key].name)
def test_requests_between_brokers_are_accepted_on_their_listener_only(key: int) -> None:
    async def story(cluster: Cluster) -> None:
        client, broker = await cluster.client(1), await cluster.client(1, BROKERS_PORT)
        assert (await client.ask(REQUESTS[key])).error_code == REFUSED
        # The connection goes on.
        assert await offered(client) == SERVED
        assert await offered(broker) == SERVED | INTER_BROKER
        assert (await broker.ask(REQUESTS[key])).error_code != REFUSED

    with_cluster(story)


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: APIS[key].name)
def test_a_single_broker_takes_no_requests_of_others(key: int) -> None:
    async def story(client: Client) -> None:
        assert (await client.ask(REQUESTS[key])).error_code == REFUSED
        assert await offered(client) == SERVED

    with_broker(story)


class NoBrokers:
    """Allows everything but CLUSTER_ACTION."""

    def __init__(self) -> None:
        self.asked: list[tuple[AclOperation, Resource]] = []

    def allows(self, session: Session, operation: AclOperation, resource: Resource) -> bool:
        self.asked.append((operation, resource))
        return operation is not AclOperation.CLUSTER_ACTION

    def visibility(self, session: Session) -> object:
        return None


@pytest.mark.parametrize("key", REQUESTS, ids=lambda key: APIS[key].name)
def test_each_request_between_brokers_needs_cluster_action(
    key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    authorizer = NoBrokers()

    def authorize(session: Session) -> None:
        services_of(session).authorizer = authorizer

    change_sessions(monkeypatch, authorize)

    async def story(cluster: Cluster) -> None:
        broker = await cluster.client(1, BROKERS_PORT)
        await asyncio.sleep(1)
        assert (await broker.ask(REQUESTS[key])).error_code == REFUSED
        assert (AclOperation.CLUSTER_ACTION, CLUSTER) in authorizer.asked

    with_cluster(story)


def test_clients_are_given_the_addresses_of_their_own_listener() -> None:
    async def story(cluster: Cluster) -> None:
        client, broker = await cluster.client(2), await cluster.client(2, BROKERS_PORT)
        for asking, port in ((client, 9092), (broker, 9093)):
            known = (await asking.ask(MetadataRequest(topics=()))).brokers
            assert [(each.host, each.port) for each in known] == [("one", port), ("two", port)]

    with_cluster(story)


LISTENERS = {
    "listeners": "CLIENTS://0.0.0.0:9092,BROKERS://0.0.0.0:9093",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"inter.broker.listener.name": "OTHERS"}, "allowed are the names in listeners"),
        ({"inter.broker.listener.name": "BROKERS"}, "other brokers cannot connect to it"),
        ({"security.inter.broker.protocol": "SSL"}, "not supported yet"),
    ],
)
def test_a_listener_that_no_broker_can_reach_is_refused(given: dict[str, str], why: str) -> None:
    with pytest.raises(BadSetting, match=why):
        load(given={**LISTENERS, **given}, environment={}, file=None)


def test_a_listener_is_found_by_its_advertised_or_its_own_address() -> None:
    def addresses(**given: str) -> list[str]:
        named = {name.replace("_", "."): value for name, value in given.items()}
        settings = load(
            given={**LISTENERS, "inter.broker.listener.name": "brokers", **named},
            environment={},
            file=None,
        )
        ports = {each.name: each.port or 5 for each in settings[LISTENERS_SETTING]}
        found = registered_endpoints(settings, ports)
        return [f"{each.listener}://{each.host}:{each.port}" for each in found]

    both = "CLIENTS://c:1,BROKERS://b:2"
    assert addresses(advertised_listeners=both) == ["CLIENTS://c:1", "BROKERS://b:2"]
    own = "CLIENTS://0.0.0.0:9092,BROKERS://host:9093"
    assert addresses(listeners=own) == ["BROKERS://host:9093"]
    free = "CLIENTS://c:0,BROKERS://b:0"
    assert addresses(listeners=free, advertised_listeners="BROKERS://b:7,CLIENTS://c:1") == [
        "BROKERS://b:7",
        "CLIENTS://c:1",
    ]
    assert addresses(listeners=own, advertised_listeners="CLIENTS://c:1") == [
        "CLIENTS://c:1",
        "BROKERS://host:9093",
    ]


@pytest.mark.parametrize(
    ("given", "is_reachable"),
    [
        ({"listeners": "PLAINTEXT://0.0.0.0:9092"}, False),
        ({"listeners": "PLAINTEXT://one:9092"}, True),
        # Any free port is known before it is registered.
        ({"listeners": "PLAINTEXT://one:0"}, True),
        (
            {
                "listeners": "PLAINTEXT://0.0.0.0:9092",
                "advertised.listeners": "PLAINTEXT://one:9092",
            },
            True,
        ),
        # Clients could reach it, other brokers could not.
        (
            {
                "listeners": "CLIENTS://one:9092",
                "listener.security.protocol.map": "CLIENTS:PLAINTEXT",
            },
            False,
        ),
    ],
)
def test_a_broker_of_a_cluster_needs_an_address_for_other_brokers(
    given: dict[str, str], is_reachable: bool
) -> None:
    settings = load(given=given, environment={}, file=None)
    if is_reachable:
        require_reachable(settings)
        return
    with pytest.raises(BadSetting, match="Other brokers cannot reach this one"):
        require_reachable(settings)


def test_a_broker_without_an_address_for_others_does_not_start_in_a_cluster() -> None:
    machine = Machine(stores=SimStoreFactory(MemoryEnsemble()))

    async def story() -> None:
        with pytest.raises(BadSetting, match=r"advertised\.listeners"):
            await machine.node(listeners=f"PLAINTEXT://0.0.0.0:{PORT}").start()
        assert machine.disk.files() == {}

    run(story(), clock=machine.clock)
