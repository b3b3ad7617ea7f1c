"""The leader epochs of a log. Replicas compare them to find where their logs diverge.

Every log keeps, for each leader epoch that wrote to it, the epoch's first offset. An epoch ends
where the next one starts, the last one where the log ends (KIP-101, KIP-279).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple, Self

from ottla.storage.directory.checkpoint_format import decode_entries, encode_entries

FILE_NAME = "leader-epoch-checkpoint"


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset that it wrote."""

    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The end of an epoch: the epoch that was found, and the offset after its last record."""

    epoch: int
    end_offset: int


# Kafka's answer for an unknown epoch.
UNKNOWN_END = EpochEnd(-1, -1)

_EPOCH = attrgetter("epoch")
_START_OFFSET = attrgetter("start_offset")


class LeaderEpochs:
    """The epochs of one log, oldest first. Epochs and start offsets both strictly grow.

    Changes memory only, and returns whether it changed; the owner makes it durable.
    """

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: list[EpochEntry] = []
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LeaderEpochs) and self._entries == other._entries

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"LeaderEpochs({self._entries!r})"

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> EpochEntry | None:
        return self._entries[-1] if self._entries else None

    @property
    def latest_epoch(self) -> int:
        """-1 if there is none."""
        return self._entries[-1].epoch if self._entries else -1

    def assign(self, epoch: int, start_offset: int) -> bool:
        """`epoch` starts at `start_offset`. Returns whether that changed anything.

        The newest assignment wins: entries that it contradicts (of the same or a later epoch, or
        starting at or after it) go. An epoch that already is the latest keeps its earlier start.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} cannot start at offset {start_offset}")
        entries = self._entries
        if entries and entries[-1].epoch == epoch and entries[-1].start_offset <= start_offset:
            return False
        while entries and (entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset):
            entries.pop()
        entries.append(EpochEntry(epoch, start_offset))
        return True

    def end_offset(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The largest epoch up to `epoch`, and its end offset in this log.

        An epoch older than all in the log ends where the oldest starts, so that a follower begins
        there. For an epoch that this log has not reached the answer is `UNKNOWN_END`.
        """
        entries = self._entries
        if not entries or not 0 <= epoch <= entries[-1].epoch:
            return UNKNOWN_END
        if epoch == entries[-1].epoch:
            return EpochEnd(epoch, log_end_offset)
        later = bisect_right(entries, epoch, key=_EPOCH)
        found = entries[later - 1].epoch if later else epoch
        return EpochEnd(found, entries[later].start_offset)

    def epoch_at(self, offset: int) -> int | None:
        """The epoch that wrote (or would write) `offset`; None before the first known one."""
        later = bisect_right(self._entries, offset, key=_START_OFFSET)
        return self._entries[later - 1].epoch if later else None

    def truncate_end(self, offset: int) -> bool:
        """Removes the epochs that start at or after `offset`. Returns whether there was one."""
        kept = bisect_left(self._entries, offset, key=_START_OFFSET)
        if kept == len(self._entries):
            return False
        del self._entries[kept:]
        return True

    def truncate_start(self, offset: int) -> bool:
        """The log now starts at `offset`. Returns whether an epoch was removed or moved.

        The epoch at `offset` now starts there.
        """
        later = bisect_right(self._entries, offset, key=_START_OFFSET)
        if not later or (later == 1 and self._entries[0].start_offset == offset):
            return False
        self._entries[:later] = [EpochEntry(self._entries[later - 1].epoch, offset)]
        return True

    def encode(self, epoch_max: int | None = None) -> bytes:
        """The content of `leader-epoch-checkpoint`: all epochs, or those up to `epoch_max`."""
        return encode_entries(
            f"{epoch} {start_offset}"
            for epoch, start_offset in self._entries
            if epoch_max is None or epoch <= epoch_max
        )

    @classmethod
    def decode(cls, content: bytes, path: str = FILE_NAME) -> Self:
        """The epochs of such a file. CorruptLog with the line if it is garbled."""
        epochs = cls()
        for line in decode_entries(content, path):
            entry = EpochEntry(*map(line.integer, line.fields(2)))
            latest = epochs.latest
            if latest and not (
                latest.epoch < entry.epoch and latest.start_offset < entry.start_offset
            ):
                raise line.corrupt(f"epoch {entry.epoch} does not follow epoch {latest.epoch}")
            epochs.assign(*entry)
        return epochs
