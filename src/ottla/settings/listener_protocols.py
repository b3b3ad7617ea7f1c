"""Which security protocol a listener has, and whether it can be served."""

from collections.abc import Iterable

from ottla.settings.broker import BrokerSettings
from ottla.settings.listeners import ListenerAddress, SecurityProtocol
from ottla.settings.setting import BadSetting, Setting
from ottla.settings.table.node import (
    ADVERTISED_LISTENERS,
    INTER_BROKER_LISTENER_NAME,
    LISTENER_SECURITY_PROTOCOL_MAP,
    LISTENERS,
    SECURITY_INTER_BROKER_PROTOCOL,
)

SUPPORTED = (SecurityProtocol.PLAINTEXT,)


def protocol_of(settings: BrokerSettings, listener: str) -> SecurityProtocol:
    """KeyError if the map has no such name."""
    return _protocols(settings)[listener]


def inter_broker_listener(settings: BrokerSettings) -> str:
    """The name of the listener for requests between brokers. It need not exist."""
    return settings[INTER_BROKER_LISTENER_NAME] or settings[SECURITY_INTER_BROKER_PROTOCOL].value


def inter_broker_address(settings: BrokerSettings) -> ListenerAddress | None:
    """The address of that listener for other brokers; None if they cannot connect to it."""
    name = inter_broker_listener(settings)
    for listener in (*(settings[ADVERTISED_LISTENERS] or ()), *settings[LISTENERS]):
        if listener.name == name and listener.is_reachable:
            return listener
    return None


def check_listeners(settings: BrokerSettings) -> None:
    """BadSetting unless each listener can be opened as its protocol demands.

    A name that promises encryption must never open a plain port.
    """
    listeners, advertised = settings[LISTENERS], settings[ADVERTISED_LISTENERS] or ()
    protocols = _protocols(settings)
    for listener in listeners:
        if listener.name not in protocols:
            raise _invalid(
                LISTENERS,
                listeners,
                f"{LISTENER_SECURITY_PROTOCOL_MAP.name} has no security protocol for listener "
                f"{listener.name}",
            )
        protocol = protocols[listener.name]
        if protocol not in SUPPORTED:
            raise _invalid(
                LISTENERS,
                listeners,
                f"listener {listener.name} has the security protocol {protocol}: allowed is only "
                f"{', '.join(SUPPORTED)}, other protocols are not supported yet",
            )
    names = {listener.name for listener in listeners}
    for listener in advertised:
        if listener.name not in names:
            raise _invalid(
                ADVERTISED_LISTENERS,
                advertised,
                f"there is no listener {listener.name}: allowed are the names in "
                f"{LISTENERS.name}, which are {', '.join(sorted(names))}",
            )

    _check_inter_broker(settings, names)


def _check_inter_broker(settings: BrokerSettings, names: Iterable[str]) -> None:
    name = settings[INTER_BROKER_LISTENER_NAME]
    if name is None:
        return
    if name not in names:
        why = f"allowed are the names in {LISTENERS.name}, which are {', '.join(sorted(names))}"
    elif inter_broker_address(settings) is None:
        why = (
            f"other brokers cannot connect to it: give its host and port in"
            f" {ADVERTISED_LISTENERS.name}"
        )
    else:
        return
    raise BadSetting(
        f"Invalid value {name} for configuration {INTER_BROKER_LISTENER_NAME.name}: {why}"
    )


def _protocols(settings: BrokerSettings) -> dict[str, SecurityProtocol]:
    return {each.listener: each.protocol for each in settings[LISTENER_SECURITY_PROTOCOL_MAP]}


def _invalid(
    setting: Setting[tuple[ListenerAddress, ...]] | Setting[tuple[ListenerAddress, ...] | None],
    value: Iterable[ListenerAddress],
    why: str,
) -> BadSetting:
    shown = ",".join(map(str, value))
    return BadSetting(f"Invalid value {shown} for configuration {setting.name}: {why}")
