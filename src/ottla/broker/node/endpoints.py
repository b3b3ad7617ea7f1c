"""Where a node that has started can be reached."""

from typing import NamedTuple


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Endpoints(NamedTuple):
    """The first listener of a node, and its metrics port."""

    kafka: Address
    metrics: Address
