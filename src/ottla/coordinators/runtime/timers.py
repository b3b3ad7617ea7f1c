"""Timers by key, in one heap. The heap entry of a key may be earlier than the key's due time.

Every heartbeat postpones a timer. A postponed key keeps its heap entry until that is reached, and
only then moves to its new time.
"""

import heapq


class Timers:
    """Each key has at most one timer."""

    __slots__ = ("_due_ms", "_heap")

    def __init__(self) -> None:
        self._due_ms: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._due_ms)

    def set(self, key: str, due_ms: int | None) -> None:
        """Sets the key's timer; None cancels it."""
        if due_ms is None:
            self._due_ms.pop(key, None)
        else:
            before_ms = self._due_ms.get(key)
            self._due_ms[key] = due_ms
            if before_ms is None or due_ms < before_ms:
                heapq.heappush(self._heap, (due_ms, key))
                self._compact()

    @property
    def next_due_ms(self) -> int | None:
        """When to call `take` next: not later than the next timer is due; None without timers.

        It is read after every request, so it does not skip outdated heap entries. It is exact after
        a `take` that returned None.
        """
        return self._heap[0][0] if self._heap else None

    def take(self, now_ms: int) -> str | None:
        """Removes and returns the key that has been due for longest; None if no timer is due."""
        self._settle_first()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, key = heapq.heappop(self._heap)
        del self._due_ms[key]
        return key

    def _settle_first(self) -> None:
        """Removes or moves outdated heap entries until the first one is correct."""
        while self._heap:
            entry_ms, key = self._heap[0]
            due_ms = self._due_ms.get(key)
            if due_ms == entry_ms:
                return
            if due_ms is None or due_ms < entry_ms:
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (due_ms, key))

    def _compact(self) -> None:
        """Bounds the heap entries that cancelled timers, and timers set earlier, leave behind."""
        if len(self._heap) > 64 + 4 * len(self._due_ms):
            self._heap = [(due_ms, key) for key, due_ms in self._due_ms.items()]
            heapq.heapify(self._heap)
