"""What can be wrong with a log, what a broker would do about it, and what a repair does."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from ottla.cli.shared.output import Row
from ottla.errors import CorruptLog


class Remedy(StrEnum):
    """What a repair does about a damage."""

    CUT = "cut the log here"
    REBUILD_INDEXES = "make the indexes of this segment anew"
    REBUILD_ABORTED = "make the index of aborted transactions anew"
    REWRITE_EPOCHS = "make the leader epochs anew from the batches"
    SET_ASIDE = "set this file aside"
    LOWER_RECOVERY_POINT = "lower the recovery point to the end of the log"
    NONE = "none: this cannot be made good here"
    KEEP = "none: the batch is as its client sent it, and what lies behind it can be read"


class Effect(StrEnum):
    """What happens when a broker opens the log as it is."""

    CUTS = "it cuts the log here"
    REFUSES = "it takes the log offline: below the recovery point nothing is cut by itself"
    REFUSES_DIRECTORY = "it refuses the whole directory"
    REFUSES_PARTITION = "it takes this partition offline"
    OVERLOOKS = "it does not look: whoever reads here meets the damage"
    STUMBLES = "it serves the batch as it is: whoever reads its records has to step over it"
    REBUILDS = "it makes the file anew"
    FALLS_BACK = "it removes the file and reads the log instead"
    MISLED = "it does not notice, and look-ups may go wrong"
    SHOWS_ABORTED = "it does not notice, and readers may be shown aborted records"
    MISTAKES_PRODUCERS = "it does not notice, and may take a batch twice or refuse a good one"
    PARTS_WRONGLY = "it does not notice, and replicas may part at a wrong offset"
    RESTARTS = "it starts an empty log there"
    SETTLES = "it finishes the compaction, or undoes it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One thing that is wrong."""

    path: str
    position: int
    what: str
    effect: Effect
    remedy: Remedy
    # None where no partition is concerned, or no offset, or where the recovery point is not known.
    partition: str | None = None
    offset: int | None = None
    below_recovery_point: bool | None = None

    @classmethod
    def of(cls, error: CorruptLog, effect: Effect, remedy: Remedy) -> Self:
        """A file that could not be read."""
        return cls(
            path=error.path,
            position=error.position,
            what=error.reason,
            effect=effect,
            remedy=remedy,
        )

    def row(self) -> Row:
        return {
            "kind": "damage",
            "file": self.path,
            "position": self.position,
            "offset": self.offset,
            "what": self.what,
            "below_recovery_point": self.below_recovery_point,
            "at_start": self.effect,
            "repair": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class LeftAs:
    """How a partition was left, as far as the files around it say.

    A partition that stands alone is taken as if it had been left cleanly: all of it is looked at.
    """

    is_clean: bool = True
    recovery_point: int | None = None
    start_offset: int = 0
    # Up to here compaction may have taken offsets away; None if that is not known.
    cleaned_offset: int | None = None

    def is_trusted(self, offset: int) -> bool:
        """Whether what indexes and snapshots say of this offset is believed at the start.

        After an unclean stop they are made anew from the recovery point on.
        """
        return self.is_clean or offset < (self.recovery_point or 0)

    def is_flushed(self, offset: int) -> bool | None:
        return None if self.recovery_point is None else offset < self.recovery_point

    def effect_of_broken_chain(self, offset: int, *, in_last_segment: bool) -> Effect:
        if self.is_clean:
            # The last segment is walked to find where the log ends.
            return Effect.REFUSES if in_last_segment else Effect.OVERLOOKS
        return Effect.REFUSES if self.is_flushed(offset) else Effect.CUTS

    def effect_of_wrong_checksum(self, offset: int) -> Effect:
        return Effect.OVERLOOKS if self.is_trusted(offset) else Effect.CUTS
