"""Which faults a seed injects, in which order, and which of them at the same time."""

from random import Random

from tests.cluster.chaos.faults.cuts import CutBrokers, CutHost, CutOneWay, CutPair, CutZooKeeper
from tests.cluster.chaos.faults.fault import Fault
from tests.cluster.chaos.faults.kills import (
    KillAll,
    KillAny,
    KillController,
    KillControllerAndLeader,
    KillLeader,
)
from tests.cluster.chaos.faults.pause import PauseLeader
from tests.cluster.chaos.faults.resources import (
    FillDisk,
    SlowNetwork,
    StepClockBackwards,
    StepClockForwards,
)
from tests.cluster.chaos.faults.zookeeper import KillZooKeeperLeader, KillZooKeeperMajority

# Injected together, from the first to the last, and healed in the opposite order.
Round = tuple[type[Fault], ...]

# These leave every process and connection as it is, so that another fault can come on top.
BACKGROUND: tuple[type[Fault], ...] = (StepClockForwards, StepClockBackwards, SlowNetwork)
# Kills need no measurement of the network, which a background fault could disturb.
KILLS: tuple[type[Fault], ...] = (
    KillLeader,
    KillController,
    KillAny,
    KillControllerAndLeader,
    KillAll,
)
OTHERS: tuple[type[Fault], ...] = (
    PauseLeader,
    CutPair,
    CutOneWay,
    CutHost,
    CutBrokers,
    CutZooKeeper,
    KillZooKeeperLeader,
    KillZooKeeperMajority,
    FillDisk,
)
FAULTS = (*BACKGROUND, *KILLS, *OTHERS)


def plan(seed: int) -> list[Round]:
    """Every fault once; those of the background each beside another kill."""
    random = Random(seed)
    companions = dict(zip(random.sample(KILLS, len(BACKGROUND)), BACKGROUND, strict=True))
    rounds: list[Round] = [
        (companions[kill], kill) if kill in companions else (kill,) for kill in KILLS
    ]
    rounds += [(other,) for other in OTHERS]
    random.shuffle(rounds)
    return rounds
