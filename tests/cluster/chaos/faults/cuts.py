"""Cuts of the network: silence between hosts, also on established connections."""

import itertools
from abc import abstractmethod

from tests.cluster.chaos.broker import PORT
from tests.cluster.chaos.faults.fault import Fault, require
from tests.cluster.chaos.network import NetworkHost, connect_times_out, datagram_arrives
from tests.cluster.chaos.stage import ZOOKEEPER_PORT

Direction = tuple[NetworkHost, NetworkHost]


class _Cut(Fault):
    """Cuts the directions that `choose` returns."""

    @abstractmethod
    def choose(self) -> list[Direction]: ...

    def inject(self) -> None:
        self.directions = self.choose()
        for source, target in self.directions:
            self.stage.network.cut(source, target)

    def check(self) -> None:
        for source, target in self.directions:
            require(not datagram_arrives(source, target), f"{source} to {target} is cut")
            if (target, source) not in self.directions:
                require(datagram_arrives(target, source), f"{target} to {source} is not cut")
        source, target = self.directions[0]
        require(connect_times_out(source, target, PORT), f"{source} cannot connect to {target}")

    def heal(self) -> None:
        for source, target in self.directions:
            self.stage.network.mend(source, target)
        source, target = self.directions[0]
        require(datagram_arrives(source, target), f"{source} to {target} is mended")

    @property
    def target(self) -> str:
        return ", ".join(f"{source} to {target}" for source, target in self.directions)


class CutPair(_Cut):
    name = "cut two hosts off from each other"

    def choose(self) -> list[Direction]:
        first, second = self.random.sample(self.stage.hosts, 2)
        return [(first, second), (second, first)]


class CutOneWay(_Cut):
    """The leader's host gets nothing from another one, or the other gets nothing from it."""

    name = "cut one direction between two hosts"

    def choose(self) -> list[Direction]:
        leader = self.a_leader().host
        other = self.random.choice([host for host in self.stage.hosts if host is not leader])
        return [self.random.choice([(leader, other), (other, leader)])]


class CutHost(_Cut):
    """Its clients are cut off too."""

    name = "cut a host off from all others"
    lasts_s = 1.0

    def check(self) -> None:
        super().check()
        self.wait_until_dropped(self.alone)

    def choose(self) -> list[Direction]:
        self.alone = self.a_leader()
        self.require_member(self.alone)
        alone = self.alone.host
        others = [*self.stage.hosts, self.stage.clients]
        pairs = [(alone, other) for other in others if other is not alone]
        return list(itertools.chain(pairs, ((other, alone) for alone, other in pairs)))


class CutBrokers(Fault):
    """It keeps its session, and what it leads. If it is the controller, no ISR can change."""

    name = "cut a broker off from the other brokers only"

    def inject(self) -> None:
        self.cut = self.random.choice([self.stage.controller(), self.a_leader()])
        self.require_member(self.cut)
        others = [broker.host for broker in self._others(self.cut)]
        self.connections = [(self.cut.host, other) for other in others]
        self.connections += [(other, self.cut.host) for other in others]
        for client, server in self.connections:
            self.stage.network.cut_port(client, server, PORT)

    def check(self) -> None:
        host, other = self.connections[0]
        for client, server in ((host, other), (other, host)):
            silent = connect_times_out(client, server, PORT)
            require(silent, f"{client} cannot connect to the broker on {server}")
        for client, port in ((self.stage.clients, PORT), (other, ZOOKEEPER_PORT)):
            reached = not connect_times_out(client, host, port)
            require(reached, f"{client} reaches port {port} of {host}")
        reached = not connect_times_out(host, other, ZOOKEEPER_PORT)
        require(reached, f"{host} reaches ZooKeeper on {other}")

    def heal(self) -> None:
        """FaultDidNothing if the session did not outlast it."""
        self.require_member(self.cut)
        for client, server in self.connections:
            self.stage.network.mend_port(client, server, PORT)

    @property
    def target(self) -> str:
        return str(self.cut)


class CutZooKeeper(Fault):
    """Clients and brokers reach it. Its own host's ZooKeeper server goes on with the others."""

    name = "cut a broker off from ZooKeeper only"
    lasts_s = 1.0

    def inject(self) -> None:
        self.cut = self.a_leader()
        self.require_member(self.cut)
        for server in self.stage.hosts:
            self.stage.network.cut_port(self.cut.host, server, ZOOKEEPER_PORT)

    def check(self) -> None:
        host = self.cut.host
        for server in self.stage.hosts:
            silent = connect_times_out(host, server, ZOOKEEPER_PORT)
            require(silent, f"{host} cannot connect to ZooKeeper on {server}")
        reached = not connect_times_out(self.stage.clients, host, PORT)
        require(reached, f"{self.cut} is reached by clients")
        self.wait_until_dropped(self.cut)

    def heal(self) -> None:
        for server in self.stage.hosts:
            self.stage.network.mend_port(self.cut.host, server, ZOOKEEPER_PORT)

    @property
    def target(self) -> str:
        return str(self.cut)
