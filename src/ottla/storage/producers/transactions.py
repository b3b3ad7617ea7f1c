"""The last stable offset of a log: open transactions, and ended ones not yet replicated."""

from bisect import bisect_left, insort
from collections import deque
from typing import NamedTuple, Self

# The limit of ended transactions whose marker may not be replicated; older ones are merged.
UNREPLICATED_MAX = 1024


class EndedTransaction(NamedTuple):
    """The offsets of the first record and of the marker of a transaction."""

    first_offset: int
    marker_offset: int


class TransactionSpans:
    """The open transactions of a log, and ended ones whose marker may not be replicated yet."""

    __slots__ = ("_log_start_offset", "_open", "_unreplicated")

    def __init__(self) -> None:
        # First offsets, in order.
        self._open: list[int] = []
        # In the order of their markers.
        self._unreplicated: deque[EndedTransaction] = deque()
        self._log_start_offset = 0

    def __len__(self) -> int:
        """The number of open transactions."""
        return len(self._open)

    def copy(self) -> Self:
        copied = type(self)()
        copied._open = self._open.copy()
        copied._unreplicated = self._unreplicated.copy()
        copied._log_start_offset = self._log_start_offset
        return copied

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the earliest open transaction, at least the log start offset."""
        return max(self._open[0], self._log_start_offset) if self._open else None

    def begin(self, first_offset: int) -> None:
        insort(self._open, first_offset)

    def end(self, first_offset: int, marker_offset: int) -> int:
        """Ends the transaction that began at `first_offset`. Returns the last stable offset then.

        That is the first offset of the earliest open transaction, or the offset after the marker.
        """
        del self._open[bisect_left(self._open, first_offset)]
        self._unreplicated.append(EndedTransaction(first_offset, marker_offset))
        if len(self._unreplicated) > UNREPLICATED_MAX:
            self._merge_oldest()
        return self._open[0] if self._open else marker_offset + 1

    def last_stable_offset(self, high_watermark: int) -> int:
        """The last stable offset: exclusive, never beyond the high watermark.

        A transaction holds it back until its marker is below the high watermark: a new leader might
        not have the marker yet.
        """
        if not self._open and not self._unreplicated:
            return high_watermark
        while self._unreplicated and self._unreplicated[0].marker_offset < high_watermark:
            self._unreplicated.popleft()
        held_back_by = [transaction.first_offset for transaction in self._unreplicated]
        stable_offset = min([high_watermark, *self._open[:1], *held_back_by])
        return max(stable_offset, min(self._log_start_offset, high_watermark))

    def truncate_start(self, log_start_offset: int) -> None:
        """The log start offset moved. A transaction across it stays open."""
        self._log_start_offset = max(self._log_start_offset, log_start_offset)

    def _merge_oldest(self) -> None:
        """Merges the two oldest into one that holds back at least as much, to bound memory."""
        oldest = self._unreplicated.popleft()
        second = self._unreplicated.popleft()
        first_offset = min(oldest.first_offset, second.first_offset)
        self._unreplicated.appendleft(EndedTransaction(first_offset, second.marker_offset))
