"""A separate cluster for loads that kill or restart its brokers."""

import os
import shutil
import signal
from abc import ABC, abstractmethod

from benchmarks.peers.peer import Peer
from benchmarks.row import LoadFailed, Ran, Scope


class OnOwnCluster(ABC):
    """Each run gets a new cluster, which is removed afterwards."""

    def __init__(self) -> None:
        self._runs = 0

    def prepare(self, peer: Peer, _scope: Scope, /) -> None:
        """Creates nothing: a cluster that idles beside the others would disturb them."""
        peer.check_running()

    def finish(self, peer: Peer) -> None:
        """A run leaves nothing."""
        peer.check_running()

    def run(self, peer: Peer, scope: Scope) -> Ran:
        self._runs += 1
        own = peer.another(peer.directory.with_name(f"{peer.directory.name}-own-{self._runs}"))
        try:
            with own:
                return self.run_on(own, scope)
        finally:
            shutil.rmtree(own.directory, ignore_errors=True)

    @abstractmethod
    def run_on(self, cluster: Peer, scope: Scope, /) -> Ran:
        """Runs the load on a cluster that serves and is empty."""


def kill_broker(cluster: Peer, broker_id: int) -> None:
    """SIGKILL. Nobody starts the broker again."""
    pid = cluster.broker_pids().get(broker_id)
    if pid is None:
        raise LoadFailed(f"{cluster.name} has no process of broker {broker_id}")
    os.kill(pid, signal.SIGKILL)
