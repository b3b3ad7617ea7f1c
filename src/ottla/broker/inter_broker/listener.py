"""The inter-broker listener of a node, and the endpoints that the node registers."""

from collections.abc import Mapping

from ottla.address import PORT_MAX
from ottla.metadata.values import Endpoint
from ottla.settings.broker import BrokerSettings
from ottla.settings.listener_protocols import (
    inter_broker_listener,
    protocol_of,
)
from ottla.settings.setting import BadSetting
from ottla.settings.table.node import ADVERTISED_LISTENERS, INTER_BROKER_LISTENER_NAME, LISTENERS


def listener_between_brokers(settings: BrokerSettings, *, has_peers: bool) -> str | None:
    """The listener on which requests between brokers are accepted; None if there is none.

    A broker that cannot have peers has one only if it is set.
    """
    if not has_peers and settings[INTER_BROKER_LISTENER_NAME] is None:
        return None
    name = inter_broker_listener(settings)
    return name if any(each.name == name for each in settings[LISTENERS]) else None


def require_reachable(settings: BrokerSettings) -> None:
    """BadSetting if other brokers of the cluster would know no address of this one.

    Nobody could replicate from it, and nobody could reach it as the controller.
    """
    name = inter_broker_listener(settings)
    # Any free port will be a port.
    ports = {each.name: each.port or PORT_MAX for each in settings[LISTENERS]}
    if any(each.listener == name for each in registered_endpoints(settings, ports)):
        return
    raise BadSetting(
        f"Other brokers cannot reach this one: it has no address for its inter-broker listener"
        f" {name}. Set {LISTENERS.name} or {ADVERTISED_LISTENERS.name} to a listener {name} with a"
        f" host other than all interfaces, or {INTER_BROKER_LISTENER_NAME.name} to another one."
    )


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
