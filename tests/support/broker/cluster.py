"""Brokers of one cluster, on one simulated network and one simulated ensemble."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from ottla.broker.node.node import Node
from ottla.broker.requests.services import Services
from ottla.metadata.memory import MemoryEnsemble, MemoryStore
from tests.sim.seams.loop import run
from tests.support.broker.shared_metadata import SimStoreFactory
from tests.support.broker.simulated_broker import PORT, Client, Machine

BROKERS_PORT = 9093
HOSTS = ("one", "two", "three")


class Cluster:
    """Broker `n` has the id n, from 1 on. Broker 1 starts first, and is the controller.

    Clients have a listener of their own, unless brokers and clients share one. `racks` are those of
    brokers 1, 2 and so on.
    """

    def __init__(
        self,
        size: int = 2,
        *,
        is_listener_shared: bool = False,
        racks: Sequence[str] = (),
        **settings: str,
    ) -> None:
        self.ensemble = MemoryEnsemble()
        self._factories = [SimStoreFactory(self.ensemble) for _ in range(size)]
        self._is_listener_shared = is_listener_shared
        self._racks = racks
        self._settings = settings
        self.machines: list[Machine] = []
        for number, factory in enumerate(self._factories):
            beside = self.machines[0] if self.machines else None
            machine = Machine(number + 1, stores=factory, host=HOSTS[number], beside=beside)
            self.machines.append(machine)
        self.nodes: dict[int, Node] = {}
        self._clients: list[Client] = []

    def machine(self, broker_id: int) -> Machine:
        return self.machines[broker_id - 1]

    def store(self, broker_id: int) -> MemoryStore:
        store = self._factories[broker_id - 1].store
        assert store is not None
        return store

    def services(self, broker_id: int) -> Services:
        """The services of a running broker."""
        connections = self.nodes[broker_id]._connections
        assert connections is not None
        (dispatch,) = {
            connection.session.handler for connection in connections._open
        }  # a client is connected
        return cast("Any", dispatch)._services

    async def start(self, broker_id: int) -> None:
        node = self.machine(broker_id).node(**self._settings_of(broker_id))
        await node.start()
        self.nodes[broker_id] = node

    async def client(self, broker_id: int, port: int = PORT) -> Client:
        """A client on another machine."""
        network = self.machines[0].network
        connected = network.host("elsewhere").connect(Client, HOSTS[broker_id - 1], port)
        client = cast("Client", await connected)
        self._clients.append(client)
        return client

    async def kill(self, broker_id: int) -> None:
        """Ends a broker. Its machine closes the connections, and its session expires at once."""
        self.machine(broker_id).net.crash()
        await self._end(broker_id)

    async def lose(self, broker_id: int) -> None:
        """The same, but the machine is gone without a word."""
        self.machine(broker_id).net.power_loss()
        await self._end(broker_id)

    async def _end(self, broker_id: int) -> None:
        """Without a controlled shutdown."""
        node = self.nodes.pop(broker_id)
        node._publisher = None
        await node.stop()

    def hold_controller(self) -> MemoryStore:
        """Nobody is elected when the controller is gone, until the held session is expired."""
        held = self.ensemble.connect()
        self.ensemble._controller = held
        return held

    def broker_epoch(self, broker_id: int) -> int:
        registered = {each.incarnation for each in self.ensemble.registered}
        return dict(registered)[broker_id]

    def expire(self, broker_id: int) -> None:
        """The ensemble expires the session of a live broker."""
        self.ensemble.expire(self.store(broker_id))

    async def stop(self) -> None:
        for client in self._clients:
            client.close()
        for _, node in sorted(self.nodes.items(), reverse=True):
            await node.stop()

    def _settings_of(self, broker_id: int) -> dict[str, str]:
        host = HOSTS[broker_id - 1]
        settings = {"node_id": str(broker_id), **self._settings}
        if self._racks:
            settings["broker_rack"] = self._racks[broker_id - 1]
        if self._is_listener_shared:
            return {"advertised_listeners": f"PLAINTEXT://{host}:{PORT}", **settings}
        return {
            "listeners": f"CLIENTS://0.0.0.0:{PORT},BROKERS://0.0.0.0:{BROKERS_PORT}",
            "listener_security_protocol_map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
            "advertised_listeners": f"CLIENTS://{host}:{PORT},BROKERS://{host}:{BROKERS_PORT}",
            "inter_broker_listener_name": "BROKERS",
            **settings,
        }


def with_cluster(
    story: Callable[[Cluster], Coroutine[Any, Any, None]], cluster: Cluster | None = None
) -> None:
    """Runs a story with all brokers of a cluster, which must end without a fault."""
    cluster = cluster or Cluster()

    async def tell() -> None:
        try:
            for broker_id in range(1, len(cluster.machines) + 1):
                await cluster.start(broker_id)
            await asyncio.sleep(1)
            await story(cluster)
            for node in cluster.nodes.values():
                assert not node.fault.done(), node.fault
        finally:
            await cluster.stop()

    run(tell(), clock=cluster.machines[0].clock)
