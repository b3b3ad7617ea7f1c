"""Listeners as Kafka writes them: `PLAINTEXT://host:port`, with commas between."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from ottla.settings.kinds import ConfigType, Kind, NotAllowed

PORT_MAX = 2**16 - 1
LISTENERS_MAX = 16

_LISTENER = re.compile(
    r"(?P<name>[A-Za-z0-9_]+)://(\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/\[\],]*))"
    r":(?P<port>[0-9]{1,5})"
)
_ANY_ADDRESS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - told apart, not bound


class Listener(NamedTuple):
    """Where a broker listens, or says that it does. An empty host is every interface."""

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"


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
        found = _LISTENER.fullmatch(text.strip())
        if found is None:
            raise NotAllowed(self.allowed)
        listener = Listener(
            found["name"].upper(), found["v6"] or found["host"] or "", int(found["port"])
        )
        is_reachable = listener.host not in _ANY_ADDRESS and listener.port > 0
        if (
            listener.name not in self.protocols
            or listener.port > PORT_MAX
            or (self.is_advertised and not is_reachable)
        ):
            raise NotAllowed(self.allowed)
        return listener
