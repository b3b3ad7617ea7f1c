"""ZooKeeper servers killed: the leader, or a majority."""

from tests.cluster.chaos.faults.fault import Fault, require
from tests.cluster.chaos.stage import SETTLE_TIMEOUT_S
from tests.cluster.chaos.waiting import wait_until


class KillZooKeeperLeader(Fault):
    name = "kill ZooKeeper's leader"
    lasts_s = 1.0

    def inject(self) -> None:
        self.killed = self.stage.zookeeper_leader()
        self.killed.kill()

    def check(self) -> None:
        require(self.killed.pid is None, f"{self.killed.name} is gone")
        successor = self.stage.zookeeper_leader()
        require(successor is not self.killed, f"{self.killed.name} has a successor")

    def heal(self) -> None:
        self.killed.start()
        self.stage.clients.namespace.call(self.stage.zookeeper.wait_until_ready)

    @property
    def target(self) -> str:
        return self.killed.name


class KillZooKeeperMajority(Fault):
    """Leaders go on serving; nobody is elected."""

    name = "kill two of three ZooKeeper servers"
    lasts_s = 4.0

    def inject(self) -> None:
        servers = self.stage.zookeeper.servers
        self.killed = self.random.sample(servers, len(servers) // 2 + 1)
        for server in self.killed:
            server.kill()

    def check(self) -> None:
        """NotWithinTime. A leader goes on for `syncLimit` without its followers."""
        left = [each for each in self.stage.zookeeper.servers if each not in self.killed]

        def is_nobody_leading() -> bool:
            call = self.stage.clients.namespace.call
            return all(call(server.mode) != "leader" for server in left)

        shown = ", ".join(server.name for server in left)
        wait_until(is_nobody_leading, SETTLE_TIMEOUT_S, lambda: f"{shown} leads nobody")

    def heal(self) -> None:
        for server in self.killed:
            server.start()
        self.stage.clients.namespace.call(self.stage.zookeeper.wait_until_ready)

    @property
    def target(self) -> str:
        return ", ".join(server.name for server in self.killed)
