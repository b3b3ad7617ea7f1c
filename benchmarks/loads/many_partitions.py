"""A topic of a thousand partitions: time until all have leaders, and CPU while idle."""

import time

from benchmarks.loads.idle_connections import await_quiet, idle_cpu_percent
from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Ran, Scope

LED_S_MAX = 120.0


class ManyPartitions:
    """Each run creates and deletes its own topic."""

    def __init__(self, *, partitions: int, seconds: float) -> None:
        self.partitions, self.seconds = partitions, seconds
        self._made = 0

    def prepare(self, peer: Peer, scope: Scope) -> None:
        pass

    def finish(self, peer: Peer) -> None:
        pass

    def run(self, peer: Peer, scope: Scope) -> Ran:
        self._made += 1
        topic, partitions = f"many-{self._made}", scope.count(self.partitions)
        began = time.monotonic()
        peer.create_topic(topic, partitions)
        while peer.leaders(topic) < partitions:
            if time.monotonic() - began > LED_S_MAX:
                raise LoadFailed(f"not all partitions have leaders after {LED_S_MAX:.0f} s")
            time.sleep(0.005)
        led_s = time.monotonic() - began
        await_quiet(peer)
        idle_percent = idle_cpu_percent(peer, scope.seconds(self.seconds))
        peer.delete_topic(topic)
        return Ran(figures={"led_s": led_s, "idle_percent": idle_percent})
