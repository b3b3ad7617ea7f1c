"""Parses bootstrap servers: `host`, `host:port`, `[::1]:port`, separated by commas."""

import re

from ottla.address import PORT_DEFAULT, PORT_MAX, Address
from ottla.client.errors import BadAddress

ADDRESSES_MAX = 64
BOOTSTRAP_SERVERS_DEFAULT = f"localhost:{PORT_DEFAULT}"

_ADDRESS = re.compile(
    r"(\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:/\[\],@]+))(:(?P<port>[0-9]{1,5}))?"
)


def parse_addresses(text: str) -> tuple[Address, ...]:
    """The distinct addresses of a bootstrap list. BadAddress names the wrong one."""
    addresses = tuple(dict.fromkeys(_parse(one.strip()) for one in text.split(",")))
    if len(addresses) > ADDRESSES_MAX:
        raise BadAddress(f"{len(addresses)} addresses; at most {ADDRESSES_MAX} are taken")
    return addresses


def _parse(text: str) -> Address:
    found = _ADDRESS.fullmatch(text)
    port = int(found["port"] or PORT_DEFAULT) if found else 0
    if found is None or not 0 < port <= PORT_MAX:
        raise BadAddress(f"{text!r} is no address: it is written host:port")
    return Address(found["v6"] or found["host"], port)
