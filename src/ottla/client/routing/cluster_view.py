"""What a client knows of its cluster, whichever way it asks. Does no I/O."""

from collections.abc import Collection, Iterable, Sequence

from ottla.address import Address
from ottla.client.options import ClientOptions
from ottla.client.routing.coordinators import Coordinators
from ottla.client.routing.topology import Topology, learned
from ottla.protocol.messages.metadata import MetadataResponse
from ottla.protocol.primitives import Uuid


class ClusterView:
    """Brokers, leaders and coordinators as they were last told; each is believed until it fails."""

    def __init__(self, bootstrap: Sequence[Address], options: ClientOptions | None) -> None:
        self.options = options or ClientOptions()
        self.topology = Topology()
        self.coordinators = Coordinators()
        self._bootstrap = tuple(bootstrap)

    @property
    def addresses(self) -> Iterable[Address]:
        """Where to try to reach some broker: those that are known, then the bootstrap list."""
        return dict.fromkeys((*self.topology.addresses, *self._bootstrap))

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
