"""The inter-broker listener of a node, and the endpoints that the node registers."""

from collections.abc import Mapping

from ottla.metadata.values import Endpoint
from ottla.settings.broker import BrokerSettings
from ottla.settings.listener_protocols import (
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


def registered_endpoints(
    settings: BrokerSettings, ports: Mapping[str, int]
) -> tuple[Endpoint, ...]:
    """The addresses under which clients and other brokers reach this broker.

    The advertised listeners, or else those that do not listen on all addresses; and the
    inter-broker listener if it is set. `ports` has the bound ports by listener.
    """
    advertised = settings[ADVERTISED_LISTENERS]
    opened = [each._replace(port=ports[each.name]) for each in settings[LISTENERS]]
    bound = [each for each in opened if each.is_reachable]
    listeners = list(bound if advertised is None else advertised)
    between = settings[INTER_BROKER_LISTENER_NAME]
    if between not in {each.name for each in listeners}:
        listeners += [each for each in bound if each.name == between]
    return tuple(
        Endpoint(each.name, each.host, each.port, protocol_of(settings, each.name))
        for each in listeners
    )
