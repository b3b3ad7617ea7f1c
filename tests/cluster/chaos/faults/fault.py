"""A fault: injected, seen to be there, and healed."""

from abc import ABC, abstractmethod
from random import Random
from typing import ClassVar

from tests.cluster.chaos.broker import ChaosBroker
from tests.cluster.chaos.stage import SESSION_TIMEOUT_S, SETTLE_TIMEOUT_S, Stage
from tests.cluster.chaos.waiting import wait_until

# Long enough for the sessions of all that it cuts off to end.
LONG_S = 2 * SESSION_TIMEOUT_S + 1


class FaultDidNothing(Exception):
    """A fault was injected, and its effect is not there: the run proves nothing."""


class Fault(ABC):
    """One fault on one stage. `random` decides where, within what the fault is about."""

    name: ClassVar[str]
    # How long it stays after it was seen.
    lasts_s: float = LONG_S
    # From a kill until the brokers that are left have replaced what was killed.
    failover_s: float = 0.0

    def __init__(self, stage: Stage, random: Random, topic: str) -> None:
        """`topic` is one that clients write to: its leaders are worth hitting."""
        self.stage = stage
        self.random = random
        self.topic = topic

    @abstractmethod
    def inject(self) -> None: ...

    @abstractmethod
    def check(self) -> None:
        """FaultDidNothing, NotWithinTime."""

    @abstractmethod
    def heal(self) -> None: ...

    @property
    def target(self) -> str:
        """Where it was injected, for people."""
        return ""

    def a_leader(self) -> ChaosBroker:
        partitions = self.stage.view().topics[self.topic].partitions
        return self.stage.leader_of(self.topic, self.random.randrange(len(partitions)))

    def require_member(self, broker: ChaosBroker) -> None:
        """Before the fault: all others know the broker, so that its end can be seen."""
        views = [each.metadata() for each in self._others(broker)]
        known = all(view is not None and broker.broker_id in view.brokers for view in views)
        require(known, f"{broker} is a member before the fault")

    def wait_until_dropped(self, broker: ChaosBroker) -> None:
        """Until the others see that its session has ended and lead what it led. NotWithinTime."""
        number = broker.broker_id

        def is_dropped() -> bool:
            views = [each.metadata() for each in self._others(broker)]
            return all(
                view is not None
                and number not in view.brokers
                and view.controller in view.brokers
                and not any(
                    partition.leader == number
                    for topic in view.topics.values()
                    for partition in topic.partitions
                )
                for view in views
            )

        wait_until(is_dropped, SETTLE_TIMEOUT_S, lambda: f"the others have dropped {broker}")

    def _others(self, broker: ChaosBroker) -> list[ChaosBroker]:
        return [each for each in self.stage.brokers.values() if each is not broker]


def require(is_there: bool, effect: str) -> None:
    """FaultDidNothing if the effect is not there."""
    if not is_there:
        raise FaultDidNothing(effect)
