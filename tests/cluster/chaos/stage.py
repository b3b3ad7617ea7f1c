"""A cluster of real processes on a network of its own: three hosts, and one for the clients.

Each host has a broker and a ZooKeeper server. No supervisor restarts them: only a fault that heals
does, so that a failover is a failover.
"""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from ottla.cli.cluster.zookeeper_servers import ServerHost, ZooKeeperServer, ZooKeeperServers
from ottla.client.routing.topology import Partition, Topology
from tests.cluster.chaos.broker import ChaosBroker
from tests.cluster.chaos.disks import Disk, unmount_leftovers
from tests.cluster.chaos.network import Network, NetworkHost
from tests.cluster.chaos.requirements import check_requirements
from tests.cluster.chaos.waiting import wait_until
from tests.support.zookeeper import UNSYNCED

HOSTS = 3
CLIENTS = "clients"
SESSION_TIMEOUT_S = 3.0
SETTLE_TIMEOUT_S = 120.0
ZOOKEEPER_PORT, QUORUM_PORT, ELECTION_PORT = 2181, 2888, 3888
_SETTINGS = {
    "zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT_S * 1000)),
    # A start waits for a majority of ZooKeeper, which some faults take away.
    "zookeeper.connection.timeout.ms": "60000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
    # A follower that is cut off holds up acks=all for as long.
    "replica.lag.time.max.ms": "3000",
    # Leaders come back to their preferred brokers while faults go on.
    "leader.imbalance.check.interval.seconds": "10",
    # Small segments, so that they roll, and indexes that fit the small disks.
    "log.segment.bytes": str(4 << 20),
    "log.index.size.max.bytes": str(64 << 10),
    "ottla.disk.reserve.bytes": str(16 << 20),
}


class Stage:
    """From `open` to `close`, or for the length of a `with`. RequirementMissing."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None) -> None:
        """`directory` gets the logs, the data and what is kept of a failed run."""
        check_requirements()
        self.directory = directory
        self.network = Network([*(f"host{number}" for number in range(1, HOSTS + 1)), CLIENTS])
        *self.hosts, self.clients = self.network.hosts.values()
        self._exits = ExitStack()
        ports = [ZOOKEEPER_PORT, QUORUM_PORT, ELECTION_PORT] * HOSTS
        self.zookeeper = ZooKeeperServers(
            directory / "zookeeper",
            HOSTS,
            ports=ports,
            properties=UNSYNCED,
            hosts=[ServerHost(each.address, tuple(each.namespace.prefix)) for each in self.hosts],
        )
        options = ["--metrics-port", "9644", "--zookeeper", self.zookeeper.connect_string]
        for name, value in {**_SETTINGS, **(settings or {})}.items():
            options += ["--set", f"{name}={value}"]
        self.brokers = {
            number: ChaosBroker(number, host, directory, options)
            for number, host in enumerate(self.hosts, 1)
        }
        self.disks = {number: Disk(broker.data) for number, broker in self.brokers.items()}

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(str(broker.address) for broker in self.brokers.values())

    def open(self) -> None:
        """Returns when all brokers serve and see each other."""
        self.directory.mkdir(parents=True, exist_ok=True)
        unmount_leftovers()
        try:
            self._exits.callback(self.network.close)
            self.network.open()
            for disk in self.disks.values():
                self._exits.callback(disk.unmount)
                disk.mount()
            self._exits.callback(self._kill_processes)
            # In a thread of the network, where it can also ask whether they serve.
            self.clients.namespace.call(self.zookeeper.start)
            for broker in self.brokers.values():
                broker.start()
            for broker in self.brokers.values():
                broker.wait_until_ready()
            self.settle()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends all processes, and removes mounts and namespaces. Idempotent."""
        self._exits.close()

    def keep_data(self) -> None:
        """Copies the brokers' data out of the small disks, which are gone after `close`."""
        self._kill_processes()
        for number, disk in self.disks.items():
            disk.copy_to(self.directory / f"broker-{number}.data")

    # The state of the cluster

    def view(self) -> Topology:
        """The view of a broker that runs and knows a controller. NotWithinTime."""
        found: list[Topology] = []

        def is_there() -> bool:
            found.extend(each for each in self._views() if each and each.controller >= 0)
            return bool(found)

        wait_until(is_there, SETTLE_TIMEOUT_S, lambda: "a broker knows the controller")
        return found[0]

    def controller(self) -> ChaosBroker:
        return self.brokers[self.view().controller]

    def leader_of(self, topic: str, partition: int = 0) -> ChaosBroker:
        """NotWithinTime if nobody leads it."""
        wait_until(
            lambda: self.partition(topic, partition).leader in self.brokers,
            SETTLE_TIMEOUT_S,
            lambda: f"a leader of {topic}-{partition}",
        )
        return self.brokers[self.partition(topic, partition).leader]

    def partition(self, topic: str, partition: int) -> Partition:
        return self.view().topics[topic].partitions[partition]

    def zookeeper_leader(self) -> ZooKeeperServer:
        return self.clients.namespace.call(self.zookeeper.leader)

    def host_of(self, server: ZooKeeperServer) -> NetworkHost:
        return self.hosts[server.number - 1]

    def settle(self, timeout_s: float = SETTLE_TIMEOUT_S) -> float:
        """Waits until each broker says that all is well. NotWithinTime, BrokerEnded."""
        return wait_until(
            lambda: not self.problems(), timeout_s, lambda: "; ".join(self.problems())
        )

    def problems(self) -> list[str]:
        """What is not as it should be once all faults have healed. BrokerEnded."""
        for broker in self.brokers.values():
            broker.check_alive()
        found: list[str] = []
        for broker, view in zip(self.brokers.values(), self._views(), strict=True):
            if view is None:
                found.append(f"{broker} does not answer")
            else:
                found += (f"{broker}: {each}" for each in _problems_in(view, self.brokers))
        return found

    def _views(self) -> Sequence[Topology | None]:
        return [broker.metadata() for broker in self.brokers.values()]

    def _kill_processes(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        self.zookeeper.kill()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _problems_in(view: Topology, expected: Iterable[int]) -> Iterable[str]:
    missing = sorted(set(expected) - view.brokers.keys())
    if missing:
        yield f"brokers {missing} are not registered"
    if view.controller not in view.brokers:
        yield "there is no controller"
    for topic in view.topics.values():
        for partition in topic.partitions:
            name = f"{topic.name}-{partition.number}"
            if partition.is_unavailable:
                yield f"{name} has no leader"
            elif partition.is_under_replicated:
                yield f"{name} has the ISR {partition.in_sync} of {partition.replicas}"
