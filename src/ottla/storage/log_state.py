"""What opening makes and a log keeps."""

from dataclasses import dataclass

from ottla.storage.epochs import LeaderEpochs
from ottla.storage.producer_state import ProducerStates
from ottla.storage.segment import Segment


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
