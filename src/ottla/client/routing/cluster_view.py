"""What a client knows of its cluster and which connections it has, whichever way it asks.

Asks nothing and dials nothing itself.
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
    """A connection, as far as it matters here."""

    @property
    def is_open(self) -> bool: ...

    def close(self) -> None: ...


C = TypeVar("C", bound=Closable)


class ClusterView(Generic[C]):
    """Brokers, leaders and coordinators as they were last told; each is believed until it fails."""

    def __init__(self, bootstrap: Sequence[Address], options: ClientOptions | None) -> None:
        self.options = options or ClientOptions()
        self.topology = Topology()
        self.coordinators = Coordinators()
        self._bootstrap = tuple(bootstrap)
        self._connections: dict[Address, C] = {}

    def close(self) -> None:
        """Idempotent; what is asked afterwards dials anew."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # Connections

    @property
    def was_reached(self) -> bool:
        """Whether some broker has ever answered."""
        return bool(self._connections)

    def open_connection(self, address: Address) -> C | None:
        """The connection to this address, if there is one that can be used."""
        connection = self._connections.get(address)
        return connection if connection is not None and connection.is_open else None

    def any_open_connection(self) -> C | None:
        """A connection to some broker, if there is one that can be used."""
        return next((each for each in self._connections.values() if each.is_open), None)

    def known_coordinator(self, key: CoordinatorKey) -> C | None:
        """The connection to a coordinator that was found; one that hung up is forgotten."""
        address = self.coordinators.get(key)
        connection = None if address is None else self.open_connection(address)
        if connection is None:
            self.coordinators.forget(key)
        return connection

    @property
    def addresses(self) -> Iterable[Address]:
        """Where to try to reach some broker: those that are known, then the bootstrap list."""
        return dict.fromkeys((*self.topology.addresses, *self._bootstrap))

    # Topics

    def topic_id(self, name: str) -> Uuid:
        """The id by which later versions name a topic; zero if it is not known."""
        return self.topology.topic_id(name)

    def distrust(self, topics: Collection[str]) -> None:
        """What is known of these topics is not believed any more: it is asked for again."""
        self.topology = self.topology.without(topics)

    def learn(self, topics: Collection[str] | None, answer: MetadataResponse) -> Topology:
        """Takes the answer to a question about these topics (None: all of them). Refused."""
        self.topology = learned(self.topology, topics, answer)
        return self.topology
