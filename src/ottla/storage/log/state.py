"""What opening makes and a log keeps."""

from dataclasses import dataclass

from ottla.storage.log.leader_epochs import LeaderEpochs
from ottla.storage.log.segment import Segment
from ottla.storage.producers.state import ProducerStates


@dataclass(slots=True, kw_only=True)
class LogState:
    """What opening a directory finds, and what a log then owns."""

    segments: list[Segment]
    epochs: LeaderEpochs
    producers: ProducerStates
    start_offset: int
    end_offset: int
    recovery_point: int
    # The newest that the epochs' file is known to have durably.
    saved_epoch: int = -1
    cleaned_offset: int = 0
