"""The state of a log as recovery finds it."""

from dataclasses import dataclass

from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.segment import Segment
from ottla.storage.producers.state import ProducerStates


@dataclass(slots=True, kw_only=True)
class LogState:
    """Made by `recovery.open_log`, then owned by the log."""

    segments: list[Segment]
    epochs: LeaderEpochs
    producers: ProducerStates
    start_offset: int
    end_offset: int
    recovery_point: int
    # The newest epoch that is durable in leader-epoch-checkpoint.
    saved_epoch: int = -1
    cleaned_offset: int = 0
