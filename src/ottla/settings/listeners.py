"""Listeners as Kafka writes them: `PLAINTEXT://host:port`, with commas between."""

import string
from dataclasses import dataclass
from typing import NamedTuple

from ottla.address import PORT_MAX, Address
from ottla.settings.kinds import ConfigType, Kind, NotAllowed

LISTENERS_MAX = 16

_NAME = frozenset(string.ascii_letters + string.digits + "_")
_V6 = frozenset(string.hexdigits + ":.")
_NOT_OF_A_HOST = frozenset(":/[],")
_PORT_DIGITS_MAX = 5
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - told apart, not bound


class Listener(NamedTuple):
    """Where a broker listens, or says that it does. An empty host is every interface."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{Address(self.host, self.port)}"


@dataclass(frozen=True, kw_only=True)
class Listeners(Kind[tuple[Listener, ...]]):
    """Listeners that differ in their names.

    A name is a security protocol and must be one that is served: a name that promises encryption
    must never open a plain port.
    """

    protocols: tuple[str, ...]
    # Advertised ones are for others to connect to: a real host, a real port.
    is_advertised: bool = False
    config_type = ConfigType.LIST

    @property
    def allowed(self) -> str:
        names = ", ".join(self.protocols)
        if self.is_advertised:
            return f"name://host:port with commas between, name of {names}, host and port given"
        return f"name://host:port with commas between, name of {names}, port 0 for any free one"

    def parse(self, text: str) -> tuple[Listener, ...]:
        listeners = tuple(map(self._one, text.split(",", LISTENERS_MAX)))
        if len(listeners) > len({listener.name for listener in listeners}):
            raise NotAllowed(f"{self.allowed}, each name once")
        return listeners

    def format(self, value: tuple[Listener, ...]) -> str:
        return ",".join(map(str, value))

    def _one(self, text: str) -> Listener:
        listener = _listener(text.strip())
        if listener is None:
            raise NotAllowed(self.allowed)
        is_reachable = listener.host not in _ANY_ADDRESS and listener.port > 0
        if (
            listener.name not in self.protocols
            or listener.port > PORT_MAX
            or (self.is_advertised and not is_reachable)
        ):
            raise NotAllowed(self.allowed)
        return listener


def _listener(text: str) -> Listener | None:
    """What is written as name://host:port, or name://[v6]:port."""
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
    return Listener(name.upper(), host, int(port)) if is_host else None
