"""Listeners in Kafka's notation, `INTERNAL://host:port`, and the security protocol of each name."""

import string
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ottla.address import PORT_MAX, Address
from ottla.settings.kinds import ConfigType, Kind, NotAllowed

LISTENERS_MAX = 16

_NAME = frozenset(string.ascii_letters + string.digits + "_-.")
_V6 = frozenset(string.hexdigits + ":.")
_NOT_OF_A_HOST = frozenset(":/[],")
_PORT_DIGITS_MAX = 5
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - compared, not bound


class SecurityProtocol(StrEnum):
    """How the connections of a listener are secured."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class ListenerAddress(NamedTuple):
    """An address that a broker binds or advertises. An empty host means every interface."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{Address(self.host, self.port)}"

    @property
    def is_reachable(self) -> bool:
        """Whether others can connect to it: neither every interface nor any free port."""
        return self.host not in _ANY_ADDRESS and self.port > 0


@dataclass(frozen=True, kw_only=True)
class ListenerList(Kind[tuple[ListenerAddress, ...]]):
    """Listeners with distinct names. A name is not a protocol: a map has the protocol of each."""

    # Clients connect to advertised listeners: these need a concrete host and port.
    is_advertised: bool = False
    config_type = ConfigType.LIST

    @property
    def allowed(self) -> str:
        if self.is_advertised:
            return "a comma-separated list of name://host:port; host and port must be given"
        return "a comma-separated list of name://host:port; port 0 is any free one"

    def parse(self, text: str) -> tuple[ListenerAddress, ...]:
        listeners = tuple(map(self._one, text.split(",", LISTENERS_MAX)))
        if len(listeners) > len({listener.name for listener in listeners}):
            raise NotAllowed(f"{self.allowed}; each name once")
        return listeners

    def format(self, value: tuple[ListenerAddress, ...]) -> str:
        return ",".join(map(str, value))

    def _one(self, text: str) -> ListenerAddress:
        listener = _listener(text.strip())
        if listener is None:
            raise NotAllowed(self.allowed)
        if listener.port > PORT_MAX or (self.is_advertised and not listener.is_reachable):
            raise NotAllowed(self.allowed)
        return listener


@dataclass(frozen=True)
class ListenerName(Kind[str]):
    """The name of a listener. As in Kafka, the case does not matter."""

    config_type = ConfigType.STRING
    allowed = "the name of a listener"

    def parse(self, text: str) -> str:
        name = text.strip().upper()
        if not name or not _NAME.issuperset(name):
            raise NotAllowed(self.allowed)
        return name

    def format(self, value: str) -> str:
        return value


class ListenerProtocol(NamedTuple):
    """The security protocol of the listener with this name."""

    listener: str
    protocol: SecurityProtocol

    def __str__(self) -> str:
        return f"{self.listener}:{self.protocol}"


@dataclass(frozen=True)
class ListenerProtocols(Kind[tuple[ListenerProtocol, ...]]):
    """Security protocols by listener name. Names without a listener are ignored."""

    config_type = ConfigType.STRING
    allowed = (
        f"a comma-separated list of name:protocol; protocols are {', '.join(SecurityProtocol)}"
    )

    def parse(self, text: str) -> tuple[ListenerProtocol, ...]:
        protocols = tuple(map(self._one, text.split(",", LISTENERS_MAX)))
        if len(protocols) > len({each.listener for each in protocols}):
            raise NotAllowed(f"{self.allowed}, each name once")
        return protocols

    def format(self, value: tuple[ListenerProtocol, ...]) -> str:
        return ",".join(map(str, value))

    def _one(self, text: str) -> ListenerProtocol:
        name, _, protocol = (part.strip().upper() for part in text.partition(":"))
        if not name or not _NAME.issuperset(name) or protocol not in set(SecurityProtocol):
            raise NotAllowed(self.allowed)
        return ListenerProtocol(name, SecurityProtocol(protocol))


def _listener(text: str) -> ListenerAddress | None:
    """Parses name://host:port or name://[v6]:port."""
    name, slashes, address = text.partition("://")
    host, colon, port = address.rpartition(":")
    is_port = len(port) <= _PORT_DIGITS_MAX and port.isascii() and port.isdecimal()
    if not (name and slashes and colon and is_port and _NAME.issuperset(name)):
        return None
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        is_host = host != "" and _V6.issuperset(host)
    else:
        is_host = _NOT_OF_A_HOST.isdisjoint(host) and not any(map(str.isspace, host))
    return ListenerAddress(name.upper(), host, int(port)) if is_host else None
