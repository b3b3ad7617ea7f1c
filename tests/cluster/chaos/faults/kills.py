"""Brokers killed with SIGKILL: one, two, or all of them."""

import time
from abc import abstractmethod
from pathlib import Path

from tests.cluster.chaos.broker import ChaosBroker
from tests.cluster.chaos.faults.fault import Fault, require
from tests.cluster.chaos.stage import SESSION_TIMEOUT_S, SETTLE_TIMEOUT_S
from tests.cluster.chaos.waiting import wait_until

# Controller and leader are killed within this.
TOGETHER_S = 1.0


class _Kill(Fault):
    """Kills what `choose` returns; they are started again when it heals."""

    lasts_s = 0.0

    @abstractmethod
    def choose(self) -> list[ChaosBroker]: ...

    def inject(self) -> None:
        self.killed = self.choose()
        pids = [broker.pid for broker in self.killed]
        self.begin_s = time.monotonic()
        for broker in self.killed:
            broker.kill()
        self.took_s = time.monotonic() - self.begin_s
        self._pids = pids

    def check(self) -> None:
        for pid in self._pids:
            require(not Path(f"/proc/{pid}").exists(), f"process {pid} is gone")
        self._wait_for_failover()

    def heal(self) -> None:
        for broker in self.killed:
            broker.start()
        for broker in self.killed:
            broker.wait_until_ready()

    @property
    def target(self) -> str:
        return ", ".join(map(str, self.killed))

    def _wait_for_failover(self) -> None:
        """Until those that are left have noticed, if there are any, and have a controller."""
        left = [each for each in self.stage.brokers.values() if each not in self.killed]
        gone = {broker.broker_id for broker in self.killed}

        def is_noticed() -> bool:
            views = [broker.metadata() for broker in left]
            return all(
                view is not None
                and not gone & view.brokers.keys()
                and view.controller in view.brokers
                and not any(
                    partition.leader in gone
                    for topic in view.topics.values()
                    for partition in topic.partitions
                )
                for view in views
            )

        wait_until(is_noticed, SETTLE_TIMEOUT_S, lambda: f"{gone} are noticed")
        self.failover_s = time.monotonic() - self.begin_s if left else 0.0


class KillLeader(_Kill):
    name = "kill a leader"

    def choose(self) -> list[ChaosBroker]:
        return [self.a_leader()]


class KillController(_Kill):
    name = "kill the controller"

    def choose(self) -> list[ChaosBroker]:
        return [self.stage.controller()]


class KillAny(_Kill):
    """Started again at once, before its session ends: it replaces its own registration.

    Also beside a fault of the background, which stays until it heals.
    """

    name = "kill a broker, and start it again at once"

    def choose(self) -> list[ChaosBroker]:
        return [self.random.choice(list(self.stage.brokers.values()))]

    def check(self) -> None:
        super().check()
        for broker in self.killed:
            broker.start()
        away_s = time.monotonic() - self.begin_s
        require(away_s < SESSION_TIMEOUT_S, f"{self.target} is started within its session")

    def heal(self) -> None:
        for broker in self.killed:
            broker.wait_until_ready()

    def _wait_for_failover(self) -> None:
        return


class KillControllerAndLeader(_Kill):
    """Two of three: the last one leads what it may, and takes no acks=all."""

    name = "kill the controller and a leader within one second"

    def choose(self) -> list[ChaosBroker]:
        # Leaders come back to their preferred brokers, so that not all are on the controller's.
        wait_until(
            lambda: bool(self._leaders_beside(self.stage.controller())),
            SETTLE_TIMEOUT_S,
            lambda: f"a leader of {self.topic} that is not the controller",
        )
        controller = self.stage.controller()
        return [controller, self.random.choice(self._leaders_beside(controller) or [controller])]

    def _leaders_beside(self, controller: ChaosBroker) -> list[ChaosBroker]:
        partitions = self.stage.view().topics[self.topic].partitions
        leaders = [
            self.stage.brokers[each.leader] for each in partitions if not each.is_unavailable
        ]
        return [broker for broker in leaders if broker is not controller]

    def check(self) -> None:
        require(len({each.broker_id for each in self.killed}) == 2, "two brokers are killed")
        require(self.took_s < TOGETHER_S, f"both killed within {TOGETHER_S:g} s")
        super().check()


class KillAll(_Kill):
    name = "kill all brokers at once"

    def choose(self) -> list[ChaosBroker]:
        return list(self.stage.brokers.values())
