"""A separate topic for each load and broker, deleted when the row is done."""

import itertools

from benchmarks.peers.peer import Peer
from benchmarks.row import Scope

_numbers = itertools.count(1)


class OnTopic:
    """A load on one topic, created before the first run and deleted after the last."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.topic = f"bench-{next(_numbers)}"

    def prepare(self, peer: Peer, scope: Scope) -> None:
        peer.create_topic(self.topic, self.partitions)
        peer.await_served(self.topic, self.partitions)
        self.fill(peer, scope)

    def fill(self, peer: Peer, scope: Scope) -> None:
        """Fills the topic before the first run; by default with nothing."""

    def finish(self, peer: Peer) -> None:
        peer.delete_topic(self.topic)
