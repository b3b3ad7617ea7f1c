"""The inter-broker listener of a node, and the endpoints that the node registers."""

from ottla.metadata.values import Endpoint
from ottla.settings.broker import BrokerSettings
from ottla.settings.listener_protocols import (
    inter_broker_address,
    inter_broker_listener,
    protocol_of,
)
from ottla.settings.table.node import ADVERTISED_LISTENERS, INTER_BROKER_LISTENER_NAME, LISTENERS


def listener_between_brokers(settings: BrokerSettings, *, has_peers: bool) -> str | None:
    """The listener on which requests between brokers are accepted; None if there is none.

    A broker that cannot have peers has one only if it is set.
    """
    if not has_peers and settings[INTER_BROKER_LISTENER_NAME] is None:
        return None
    name = inter_broker_listener(settings)
    return name if any(each.name == name for each in settings[LISTENERS]) else None


def registered_endpoints(settings: BrokerSettings, *, has_peers: bool) -> tuple[Endpoint, ...]:
    """The advertised listeners, and the inter-broker listener if it is not among them.

    As in Kafka, a broker with peers advertises by default the addresses that it listens on: clients
    of the others need them.
    """
    advertised = settings[ADVERTISED_LISTENERS]
    if advertised is None and has_peers:
        advertised = tuple(each for each in settings[LISTENERS] if each.is_reachable)
    listeners = list(advertised or ())
    address = inter_broker_address(settings)
    if (
        address is not None
        and address not in listeners
        and listener_between_brokers(settings, has_peers=has_peers) is not None
    ):
        listeners.append(address)
    return tuple(
        Endpoint(each.name, each.host, each.port, protocol_of(settings, each.name))
        for each in listeners
    )
