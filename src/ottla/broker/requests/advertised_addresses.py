"""The broker addresses that responses carry.

A client must reach every broker through the listener that it connected to. If no listeners are
advertised, this broker's own address is the one that the client connected to.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ottla.broker.requests.call import Call
from ottla.metadata.values import BrokerState, Endpoint


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
    known = []
    for broker_id, broker in sorted(call.services.image.brokers.items()):
        address = _address(call, broker_id, broker.endpoints)
        if address is not None:
            is_up = broker.state is not BrokerState.GONE
            known.append(BrokerAddress(broker_id, *address, broker.rack, is_up))
    return known


def present_brokers(call: Call) -> list[BrokerAddress]:
    """The brokers that are up, in the order of ids."""
    return [broker for broker in known_brokers(call) if broker.is_up]


def _address(call: Call, broker_id: int, endpoints: Sequence[Endpoint]) -> tuple[str, int] | None:
    own = call.services.identity
    if broker_id == own.node_id:
        if own.advertised is None:
            return call.session.local_address
        endpoints = own.advertised
    for endpoint in endpoints:
        if endpoint.listener == call.session.listener:
            return endpoint.host, endpoint.port
    return None
