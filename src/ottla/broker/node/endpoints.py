"""Where a node that has started can be reached."""

from typing import NamedTuple

from ottla.address import Address


class Endpoints(NamedTuple):
    """The first listener of a node, and its metrics port."""

    kafka: Address
    metrics: Address
