"""The addresses of a node that has started."""

from typing import NamedTuple

from ottla.address import Address


class Endpoints(NamedTuple):
    """The addresses of a node's first listener and of its metrics port."""

    kafka: Address
    metrics: Address
