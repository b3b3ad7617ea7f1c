"""A leader that is stopped for longer than its session, and wakes as if nothing had happened."""

from tests.cluster.chaos.faults.fault import Fault, require
from tests.cluster.chaos.stage import SETTLE_TIMEOUT_S
from tests.cluster.chaos.waiting import wait_until


class PauseLeader(Fault):
    name = "stop a leader's process for twice its session"

    def inject(self) -> None:
        self.paused = self.a_leader()
        self.paused.pause()

    def check(self) -> None:
        state = self.paused.process_state()
        require(state == "T", f"{self.paused} is stopped, not {state}")
        others = [each for each in self.stage.brokers.values() if each is not self.paused]

        def is_replaced() -> bool:
            views = [broker.metadata() for broker in others]
            return all(
                view is not None and self.paused.broker_id not in view.brokers for view in views
            )

        wait_until(is_replaced, SETTLE_TIMEOUT_S, lambda: f"{self.paused} is noticed")

    def heal(self) -> None:
        self.paused.resume()

    @property
    def target(self) -> str:
        return str(self.paused)
