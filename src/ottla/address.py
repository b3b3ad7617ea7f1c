"""A host and a port, and how they are written."""

from typing import NamedTuple

PORT_MAX = 2**16 - 1
# Kafka's port where none is named.
PORT_DEFAULT = 9092


class Address(NamedTuple):
    """A host and a port. Prints as `host:port`, an IPv6 host in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"
