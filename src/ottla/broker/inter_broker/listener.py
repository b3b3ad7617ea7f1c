"""The inter-broker listener of a node, and the endpoints that the node registers."""

from ottla.metadata.values import Endpoint
from ottla.settings.broker import BrokerSettings
from ottla.settings.listener_protocols import (
    inter_broker_address,
    inter_broker_listener,
    protocol_of,
)
from ottla.settings.table.node import INTER_BROKER_LISTENER_NAME, LISTENERS


def listener_between_brokers(settings: BrokerSettings, *, has_peers: bool) -> str | None:
    """The listener on which requests between brokers are accepted; None if there is none.

    A broker that cannot have peers has one only if it is set.
    """
    if not has_peers and settings[INTER_BROKER_LISTENER_NAME] is None:
        return None
    name = inter_broker_listener(settings)
    return name if any(each.name == name for each in settings[LISTENERS]) else None


def with_inter_broker_endpoint(
    settings: BrokerSettings, endpoints: tuple[Endpoint, ...], *, has_peers: bool
) -> tuple[Endpoint, ...]:
    """The endpoints that a broker registers: those for clients, and its inter-broker listener."""
    listener = listener_between_brokers(settings, has_peers=has_peers)
    address = inter_broker_address(settings)
    if listener is None or address is None or any(each.listener == listener for each in endpoints):
        return endpoints
    protocol = protocol_of(settings, listener)
    return (*endpoints, Endpoint(listener, address.host, address.port, protocol))
