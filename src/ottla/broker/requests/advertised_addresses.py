"""Where clients are told that brokers are.

A client must reach every broker by the listener that it came through. Of this broker it already
knows an address that works: the one that it connected to. Unless others are advertised, that is
what it is told.
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
    """Every broker that has an address for this client, by id, also those that are gone."""
    known = []
    for broker_id, broker in sorted(call.services.image.brokers.items()):
        address = _address(call, broker_id, broker.endpoints)
        if address is not None:
            is_up = broker.state is not BrokerState.GONE
            known.append(BrokerAddress(broker_id, *address, broker.rack, is_up))
    return known


def present_brokers(call: Call) -> list[BrokerAddress]:
    """Every broker that this client can reach, by id."""
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
