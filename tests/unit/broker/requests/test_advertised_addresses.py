"""Broker addresses for the listener of a client."""

from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.requests.advertised_addresses import known_brokers, present_brokers
from ottla.broker.requests.call import Call
from ottla.metadata.records import Broker
from ottla.metadata.values import BrokerState, Endpoint
from ottla.settings.listeners import SecurityProtocol

INSIDE = Endpoint("INSIDE", "10.0.0.2", 9092, SecurityProtocol.PLAINTEXT)
OUTSIDE = Endpoint("OUTSIDE", "b2.example", 9093, SecurityProtocol.PLAINTEXT)


def broker(broker_id: int, *endpoints: Endpoint, state: BrokerState = BrokerState.UP) -> Broker:
    return Broker(
        broker_id=broker_id,
        epoch=1,
        inherits=None,
        endpoints=endpoints,
        rack=None,
        host="localhost",
        state=state,
    )


def call(*brokers: Broker, advertised: tuple[Endpoint, ...] | None = None) -> Call:
    """A request to broker 1 by the listener INSIDE, at 127.0.0.1:9092."""
    services: Any = SimpleNamespace(
        identity=SimpleNamespace(node_id=1, advertised=advertised),
        image=SimpleNamespace(brokers={each.broker_id: each for each in brokers}),
    )
    session: Any = SimpleNamespace(listener="INSIDE", local_address=("127.0.0.1", 9092))
    return cast(Call, SimpleNamespace(services=services, session=session))


def test_without_advertised_listeners_the_own_address_is_that_of_the_connection() -> None:
    (own,) = present_brokers(call(broker(1)))
    assert (own.host, own.port) == ("127.0.0.1", 9092)


def test_an_advertised_address_replaces_that_of_the_connection() -> None:
    (own,) = present_brokers(call(broker(1), advertised=(OUTSIDE, INSIDE)))
    assert (own.host, own.port) == ("10.0.0.2", 9092)


def test_other_brokers_need_an_endpoint_of_the_same_listener() -> None:
    asked = call(broker(3, OUTSIDE), broker(2, OUTSIDE, INSIDE))
    assert [(each.broker_id, each.host) for each in known_brokers(asked)] == [(2, "10.0.0.2")]


def test_a_broker_that_is_gone_is_known_and_not_present() -> None:
    asked = call(broker(2, INSIDE, state=BrokerState.GONE))
    assert [each.is_up for each in known_brokers(asked)] == [False]
    assert present_brokers(asked) == []
