"""The metadata ensemble as a cluster's brokers reach it: a simulated ZooKeeper, as one more host.

A session lives as long as its broker is heard. A broker that is dead, paused or cut off for longer
than the session timeout loses its registration and its office as the controller.
"""

import asyncio
from collections.abc import Sequence

from ottla.broker.node.context import Seams
from ottla.metadata.store import MetadataStore
from ottla.metadata.zookeeper.layout import BROKERS
from ottla.metadata.zookeeper.store import ZooKeeperStore
from ottla.seams.files import Files
from tests.sim.ensemble.client import SimZnodes
from tests.sim.ensemble.link import SimLink
from tests.sim.ensemble.servers import SimEnsemble
from tests.sim.seams.entropy import SimEntropy
from tests.sim.seams.net import SimNetwork

HOST = "ensemble"
SESSION_TIMEOUT_S = 4.0
# A cut that was healed is noticed so soon.
LOOK_S = 0.05


class NetworkLink(SimLink):
    """A machine's way to the servers, cut where the network is."""

    def __init__(self, network: SimNetwork, host: str, entropy: SimEntropy) -> None:
        super().__init__(entropy)
        self._network = network
        self._host = host
        self._was_cut = False

    def is_cut(self, *, to_servers: bool) -> bool:
        way = (self._host, HOST) if to_servers else (HOST, self._host)
        return self._network.is_blocked(*way)

    @property
    def connects(self) -> bool:
        return not (self.is_cut(to_servers=True) or self.is_cut(to_servers=False))

    def look(self) -> None:
        """Sends what was held, if the way is open again."""
        is_cut = not self.connects
        if self._was_cut and not is_cut:
            self.heal()
        self._was_cut = is_cut


class Ensemble:
    """The servers of a cluster, which fail only in that their leader changes."""

    def __init__(self, network: SimNetwork, entropy: SimEntropy) -> None:
        self.servers = SimEnsemble(entropy, session_timeout_s=SESSION_TIMEOUT_S)
        self._network = network
        self._links: dict[str, NetworkLink] = {}
        self._factories: dict[str, SessionStoreFactory] = {}

    def stores(self, host: str) -> "SessionStoreFactory":
        """Opens the stores of the broker on this host."""
        link = NetworkLink(self._network, host, self.servers.entropy.fork(f"link of {host}"))
        self._links[host] = link
        factory = self._factories[host] = SessionStoreFactory(self.servers, link)
        return factory

    @property
    def registered_ids(self) -> list[int]:
        """The ids of the brokers that are registered, as the newest server has them."""
        newest = max(self.servers.servers, key=lambda server: server.applied)
        return sorted(map(int, newest.tree.children(BROKERS)))

    def lose_writes(self, share: float) -> None:
        """From now on connections break at this share of writes, before them or after them."""
        for factory in self._factories.values():
            factory.lose_writes(share)

    def expire(self, host: str) -> None:
        """Ends the session of the broker on this host, whether it lives or not."""
        client = self._factories[host].client
        if client is not None:
            self.servers.expire(client)

    async def run(self) -> None:
        """Notices healed cuts; does not end."""
        while True:
            await asyncio.sleep(LOOK_S)
            for link in self._links.values():
                link.look()


class SessionStoreFactory:
    """Opens a session per life of a broker."""

    is_shared = True

    def __init__(self, servers: SimEnsemble, link: NetworkLink) -> None:
        self._servers = servers
        self._link = link
        self._lost_writes = 0.0
        # Of the last life.
        self.client: SimZnodes | None = None

    def lose_writes(self, share: float) -> None:
        self._lost_writes = share
        if self.client is not None:
            self.client.lost_writes = share

    def home(self, files: Files, log_dirs: Sequence[str]) -> str:
        return log_dirs[0]

    async def open(self, seams: Seams, home: str) -> MetadataStore:
        self.client = self._servers.client(self._link)
        self.client.lost_writes = self._lost_writes
        return ZooKeeperStore(self.client)
