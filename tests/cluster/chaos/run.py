"""One run: a stage, clients that never stop, the rounds of a plan, and the verdict."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.cluster.chaos.faults.fault import Fault
from tests.cluster.chaos.plan import Round
from tests.cluster.chaos.stage import Stage
from tests.cluster.chaos.waiting import wait_until
from tests.cluster.chaos.workload import PARTITIONS, RECORDS, Verdict, Workload

FINISH_TIMEOUT_S = 120.0
PROGRESS_TIMEOUT_S = 60.0

Tell = Callable[[str], None]


@dataclass(frozen=True)
class RoundTimes:
    """`settled_s` is from the end of the healing to full ISRs and records that are acknowledged.

    `failover_s` is from a kill until the brokers that are left have replaced what was killed;
    `gap_s` is the longest time without an acknowledgement of a partition.
    """

    names: str
    targets: str
    failover_s: float
    gap_s: float
    settled_s: float
    all_s: float

    def __str__(self) -> str:
        times = f"settled after {self.settled_s:.1f} s, {self.all_s:.1f} s in all"
        failover = f"failover {self.failover_s:.1f} s, " if self.failover_s else ""
        return f"{self.names} ({self.targets}): {failover}gap {self.gap_s:.1f} s, {times}"


@dataclass(frozen=True)
class Outcome:
    """What a run found. `directory` has the histories and the logs."""

    seed: int
    directory: Path
    rounds: Sequence[RoundTimes]
    verdict: Verdict


def run_rounds(
    seed: int, rounds: Sequence[Round], directory: Path, tell: Tell = lambda _: None
) -> Outcome:
    """Keeps the data in the directory if there is an anomaly, or anything is raised."""
    random = Random(seed)
    times = []
    with ExitStack() as exits:
        stage = exits.enter_context(Stage(directory))
        workload = Workload(
            stage.bootstrap_servers,
            directory / "histories",
            prefix=stage.clients.namespace.prefix,
            seed=seed,
        )
        # Before the stage goes: clients in a namespace would keep it alive.
        exits.callback(workload.close)
        try:
            workload.start()
            for each in rounds:
                times.append(_run_round(stage, workload, each, random))
                tell(str(times[-1]))
            verdict = workload.finish(FINISH_TIMEOUT_S)
        except BaseException:
            stage.keep_data()
            raise
        if verdict.anomalies:
            stage.keep_data()
    return Outcome(seed, directory, times, verdict)


def _run_round(stage: Stage, workload: Workload, kinds: Round, random: Random) -> RoundTimes:
    """Injects and heals all of them; then the cluster is well, and all partitions take records."""
    begin = time.monotonic()
    faults: list[Fault] = [kind(stage, random, RECORDS) for kind in kinds]
    # Nothing heals after a failure: the stage is given up, and another error would hide the first.
    for fault in faults:
        fault.inject()
        fault.check()
    # The length of a fault, no wait for a condition.
    time.sleep(max(fault.lasts_s for fault in faults))
    for fault in reversed(faults):
        fault.heal()
    healed = time.monotonic()
    stage.settle()
    in_sync = time.monotonic()
    wait_until(
        lambda: len(workload.acknowledged_since(in_sync)) == PARTITIONS,
        PROGRESS_TIMEOUT_S,
        lambda: f"acknowledged again: {sorted(map(str, workload.acknowledged_since(in_sync)))}",
    )
    # A leader that could not reach the controller may have had an ISR that only looked full.
    stage.settle()
    settled = time.monotonic()
    return RoundTimes(
        " with ".join(fault.name for fault in faults),
        "; ".join(fault.target for fault in faults),
        max(fault.failover_s for fault in faults),
        workload.longest_gap_s(begin),
        settled - healed,
        time.monotonic() - begin,
    )
