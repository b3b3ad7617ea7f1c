"""The cluster state and the connections that the asyncio and the blocking router share.

Sends no requests and opens no connections itself.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from ottla.address import Address
from ottla.client.options import ClientOptions
from ottla.client.routing.coordinators import CoordinatorKey, Coordinators
from ottla.client.routing.topology import Topology, learned
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.protocol.primitives import Uuid


class Closable(Protocol):
    """The part of a connection that is used here."""

    @property
    def is_open(self) -> bool: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class ClusterView(Generic[C]):
    """Brokers, leaders and coordinators from the last responses, valid until one fails."""

    def __init__(self, bootstrap: Sequence[Address], options: ClientOptions | None) -> None:
        self.options = options or ClientOptions()
        self.topology = Topology()
        self.coordinators = Coordinators()
        self._bootstrap = tuple(bootstrap)
        self._connections: dict[Address, C] = {}

    def close(self) -> None:
        """Closes all connections. Later requests open new ones. Idempotent."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Connections

    @property
    def was_reached(self) -> bool:
        """Whether some broker has ever answered."""
        return bool(self._connections)

    def open_connection(self, address: Address) -> C | None:
        """The open connection to this address, if there is one."""
        connection = self._connections.get(address)
        return connection if connection is not None and connection.is_open else None

    def any_open_connection(self) -> C | None:
        """An open connection to any broker, if there is one."""
        return next((each for each in self._connections.values() if each.is_open), None)

    def known_coordinator(self, key: CoordinatorKey) -> C | None:
        """The connection to a known coordinator. Forgets one whose connection has ended."""
        address = self.coordinators.get(key)
        connection = None if address is None else self.open_connection(address)
        if connection is None:
            self.coordinators.forget(key)
        return connection

    @property
    def addresses(self) -> Iterable[Address]:
        """The addresses to try for any broker: known brokers, then the bootstrap list."""
        return dict.fromkeys((*self.topology.addresses, *self._bootstrap))

    # Topics

    def topic_id(self, name: str) -> Uuid:
        """The topic's id; ZERO_UUID if it is not known."""
        return self.topology.topic_id(name)

    def invalidate_topics(self, topics: Collection[str]) -> None:
        """Forgets these topics, so that the next request refreshes them."""
        self.topology = self.topology.without(topics)

    def learn(self, topics: Collection[str] | None, answer: MetadataResponse) -> Topology:
        """Takes the Metadata response about these topics (None: all topics). Refused."""
        self.topology = learned(self.topology, topics, answer)
        return self.topology
