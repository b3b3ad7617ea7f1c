"""The controller and a leader die within a second, again and again, under load.

DOUBLE_KILLS=20 kills them that many times.
"""

import os
import time
from pathlib import Path

import pytest

from tests.cluster.chaos.broker import ChaosBroker
from tests.cluster.chaos.faults.kills import KillControllerAndLeader
from tests.cluster.chaos.run import run_rounds
from tests.cluster.chaos.stage import SETTLE_TIMEOUT_S
from tests.cluster.chaos.waiting import wait_until

KILLS = int(os.environ.get("DOUBLE_KILLS", "3"))
SEED = 1
LED_AGAIN_S = 10.0


class KillUntilAllIsLed(KillControllerAndLeader):
    """All ISRs were full: the broker that is left leads everything, and is the controller."""

    def check(self) -> None:
        super().check()
        (left,) = (each for each in self.stage.brokers.values() if each not in self.killed)
        wait_until(lambda: leads_all(left), SETTLE_TIMEOUT_S, lambda: f"{left} leads everything")
        self.failover_s = time.monotonic() - self.begin_s


def leads_all(broker: ChaosBroker) -> bool:
    view = broker.metadata()
    return view is not None and {broker.broker_id} == {
        partition.leader for topic in view.topics.values() for partition in topic.partitions
    }


@pytest.mark.timeout(120 + 60 * KILLS)
def test_partitions_are_led_again_soon_after_the_controller_and_a_leader_die_together(
    tmp_path: Path,
) -> None:
    rounds = [(KillUntilAllIsLed,)] * KILLS
    outcome = run_rounds(SEED, rounds, tmp_path / "run", print)
    print(outcome.verdict)
    slow = [str(each) for each in outcome.rounds if each.failover_s >= LED_AGAIN_S]
    assert len(outcome.rounds) == KILLS
    assert not slow
    assert not outcome.verdict.anomalies, f"{outcome.verdict}, kept in {tmp_path}"
    assert outcome.verdict.acknowledged > 0
    assert outcome.verdict.transactions > 0
