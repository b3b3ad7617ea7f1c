"""Consumer groups: members that join at once, and commits as fast as answers arrive."""

import itertools
import statistics
import time
from collections.abc import Mapping

from benchmarks.loads.coordinator import PAUSE_S, await_coordinator
from benchmarks.loads.generators import generate
from benchmarks.loads.topics import OnTopic
from benchmarks.peers.peer import Peer
from benchmarks.row import Ran, Scope

ROUNDS = 3


class _Group(OnTopic):
    """A load on a topic with one partition per member; each run has its own group."""

    def __init__(self, *, members: int) -> None:
        super().__init__(partitions=members)
        self.members = members
        self._numbers = itertools.count(1)

    def prepare(self, peer: Peer, scope: Scope) -> None:
        # No client reads the topic: its partitions must have leaders, but need not be served.
        peer.create_topic(self.topic, self.partitions)
        while peer.leaders(self.topic) < self.partitions:
            time.sleep(PAUSE_S)
        await_coordinator(peer)
        self.run(peer, scope)

    def run(self, peer: Peer, scope: Scope) -> Ran:
        raise NotImplementedError

    def next_group(self) -> str:
        return f"{self.topic}-{next(self._numbers)}"


class _Joining(_Group):
    """Members that join at once; repeated, since it takes less than a tenth of a second."""

    def run(self, peer: Peer, scope: Scope) -> Ran:  # noqa: ARG002 - the same at every scale
        seconds = [self.join_all(peer)["assigned_s"] for _ in range(ROUNDS)]
        return Ran(figures={"assigned_s": statistics.median(seconds)})

    def join_all(self, peer: Peer) -> Mapping[str, float]:
        raise NotImplementedError


class ClassicMembers(_Joining):
    """From the first JoinGroup of many members until all have their partitions."""

    def join_all(self, peer: Peer) -> Mapping[str, float]:
        return _gather(self, peer, seconds=0)


class ConsumerMembers(_Joining):
    """The same with the consumer protocol: heartbeats until all have their partitions."""

    def join_all(self, peer: Peer) -> Mapping[str, float]:
        load = (self.next_group(), self.topic, self.partitions, self.members)
        return generate("heartbeats", peer, *load)


class Commits(_Group):
    """Members of one group that commit repeatedly, one connection each."""

    def __init__(self, *, members: int, seconds: float) -> None:
        super().__init__(members=members)
        self.seconds = seconds

    def run(self, peer: Peer, scope: Scope) -> Ran:
        said = _gather(self, peer, seconds=scope.seconds(self.seconds))
        return Ran(figures=said, requests=said["requests"])


def _gather(load: _Group, peer: Peer, *, seconds: float) -> Mapping[str, float]:
    """Members of the classic protocol join, commit for `seconds`, and leave."""
    arguments = (load.next_group(), load.topic, load.partitions, load.members, seconds)
    return generate("members", peer, *arguments)
