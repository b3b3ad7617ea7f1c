"""The broker addresses that responses carry.

A client must reach every broker through the listener that it connected to. If no listeners are
advertised, this broker's own address is the one that the client connected to.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.requests.call import Call
from ottla.metadata.values import BrokerState, Endpoint

if TYPE_CHECKING:
    from ottla.broker.net.session import Session
    from ottla.broker.requests.services import Services


class BrokerAddress(NamedTuple):
    """A broker as one client sees it."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_up: bool


def known_brokers(call: Call) -> list[BrokerAddress]:
    """Every broker with an address on this client's listener, in the order of ids.

    Includes brokers that are down.
    """
    services, session = call.services, call.session
    known = (broker_address(services, session, each) for each in sorted(services.image.brokers))
    return [broker for broker in known if broker is not None]


def present_brokers(call: Call) -> list[BrokerAddress]:
    """The brokers that are up, in the order of ids."""
    return [broker for broker in known_brokers(call) if broker.is_up]


def broker_address(
    services: "Services", session: "Session", broker_id: int
) -> BrokerAddress | None:
    """A broker that registered once; None if it has no address on this client's listener."""
    broker = services.image.brokers.get(broker_id)
    if broker is None:
        return None
    address = _address(services, session, broker_id, broker.endpoints)
    if address is None:
        return None
    is_up = broker.state is not BrokerState.GONE
    return BrokerAddress(broker_id, *address, broker.rack, is_up)


def _address(
    services: "Services", session: "Session", broker_id: int, endpoints: Sequence[Endpoint]
) -> tuple[str, int] | None:
    own = services.identity
    if broker_id == own.node_id:
        if own.advertised is None:
            return session.local_address
        endpoints = own.advertised
    for endpoint in endpoints:
        if endpoint.listener == session.listener:
            return endpoint.host, endpoint.port
    return None
