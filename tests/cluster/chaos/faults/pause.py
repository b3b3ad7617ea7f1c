"""A leader that is stopped for longer than its session, and wakes as if nothing had happened."""

import time

from ottla.client.errors import ConnectionLost
from ottla.errors import ErrorCode
from tests.cluster.chaos.faults.fault import Fault
from tests.cluster.chaos.faults.probe import Probe
from tests.cluster.chaos.stage import SESSION_TIMEOUT_S
from tests.cluster.chaos.waiting import wait_until

PAUSE_S = 2 * SESSION_TIMEOUT_S
# The kernel stops the threads of a process one after another.
STOP_TIMEOUT_S = 10.0


class WrongFirstAnswer(Exception):
    """A leader that woke did not refuse a record, though another one leads."""


class PauseLeader(Fault):
    """The first answer after it wakes is a refusal, or the end of the connection."""

    name = "stop a leader's process for twice its session"
    lasts_s = 0.0

    def inject(self) -> None:
        self.paused = self.a_leader()
        self.require_member(self.paused)
        partitions = self.stage.view().topics[self.topic].partitions
        led = [each for each in partitions if each.leader == self.paused.broker_id]
        self._partition = led[0].number
        self._probe = Probe(self.paused)
        self.paused.pause()

    def check(self) -> None:
        """NotWithinTime."""
        wait_until(
            lambda: self.paused.process_state() == "T",
            STOP_TIMEOUT_S,
            lambda: f"{self.paused} is stopped, not {self.paused.process_state()}",
        )
        self._stopped_s = time.monotonic()
        self.wait_until_dropped(self.paused)

    def heal(self) -> None:
        """WrongFirstAnswer."""
        time.sleep(max(0.0, self._stopped_s + PAUSE_S - time.monotonic()))
        # The request waits in the socket of the stopped process. A deposed leader that did not know
        # it would acknowledge it: with acks=1 it asks nobody.
        number = self._probe.send(self.topic, self._partition, acks=1)
        self.paused.resume()
        try:
            error = self._probe.error(number)
        except ConnectionLost:
            return
        finally:
            self._probe.close()
        if error is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise WrongFirstAnswer(f"{self.paused}: {error.name}")

    @property
    def target(self) -> str:
        return str(self.paused)
