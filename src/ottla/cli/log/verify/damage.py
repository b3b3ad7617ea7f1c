"""Damage of a log, its effect at a broker's start, and its repair."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from ottla.cli.shared.output import Row
from ottla.errors import CorruptLog


class Remedy(StrEnum):
    """The repair of a damage."""

    CUT = "truncate the log here"
    REBUILD_INDEXES = "rebuild the indexes of this segment"
    REBUILD_ABORTED = "rebuild the index of aborted transactions"
    REWRITE_EPOCHS = "rewrite the leader epochs from the batches"
    SET_ASIDE = "set this file aside"
    LOWER_RECOVERY_POINT = "lower the recovery point to the end of the log"
    NONE = "none: this cannot be repaired here"
    KEEP = "none: the batch is as its client sent it, and the batches after it can be read"


class Effect(StrEnum):
    """The effect of the damage when a broker opens the log."""

    CUTS = "it truncates the log here"
    TAKES_LOG_OFFLINE = (
        "it takes the log offline: below the recovery point it never truncates a log"
    )
    REFUSES_DIRECTORY = "it refuses the whole directory"
    TAKES_PARTITION_OFFLINE = "it takes this partition offline"
    UNDETECTED = "it does not detect it: readers of this part get the damage"
    SERVES_UNREADABLE = "it serves the batch as it is: consumers have to skip it"
    REBUILDS = "it rebuilds the file"
    FALLS_BACK = "it removes the file and reads the log instead"
    MISLEADS_LOOKUPS = "it does not detect it, and lookups may return wrong offsets"
    SHOWS_ABORTED = "it does not detect it, and consumers may read aborted records"
    MISJUDGES_PRODUCERS = (
        "it does not detect it, and may accept a duplicate batch or refuse a valid one"
    )
    DIVERGES = "it does not detect it, and followers may truncate to a wrong offset"
    STARTS_EMPTY = "it starts an empty log there"
    FINISHES_COMPACTION = "it finishes the compaction, or undoes it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """One damage of a log."""

    path: str
    position: int
    what: str
    effect: Effect
    remedy: Remedy
    # None without a partition or an offset, or with an unknown recovery point.
    partition: str | None = None
    offset: int | None = None
    below_recovery_point: bool | None = None

    @classmethod
    def of(cls, error: CorruptLog, effect: Effect, remedy: Remedy) -> Self:
        """The damage of a file that could not be read."""
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
class ShutdownState:
    """The state in which a broker left a partition, from the checkpoints of its log directory.

    A partition outside of a log directory counts as cleanly shut down, so all of it is checked.
    """

    is_clean: bool = True
    recovery_point: int | None = None
    start_offset: int = 0
    # Compaction may have removed offsets below this; None if it is unknown.
    cleaned_offset: int | None = None

    def is_trusted(self, offset: int) -> bool:
        """Whether a start trusts indexes and snapshots at this offset.

        After an unclean shutdown they are rebuilt from the recovery point on.
        """
        return self.is_clean or offset < (self.recovery_point or 0)

    def is_flushed(self, offset: int) -> bool | None:
        return None if self.recovery_point is None else offset < self.recovery_point

    def effect_of_broken_chain(self, offset: int, *, in_last_segment: bool) -> Effect:
        if self.is_clean:
            # A start scans the last segment for the end of the log.
            return Effect.TAKES_LOG_OFFLINE if in_last_segment else Effect.UNDETECTED
        return Effect.TAKES_LOG_OFFLINE if self.is_flushed(offset) else Effect.CUTS

    def effect_of_wrong_checksum(self, offset: int) -> Effect:
        return Effect.UNDETECTED if self.is_trusted(offset) else Effect.CUTS
