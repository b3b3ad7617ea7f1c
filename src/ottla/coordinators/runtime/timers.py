"""What is due when, by key: one heap, in which a key may stand sooner than it is due.

Members renew their sessions all the time. A key that is put off keeps its place until its turn
comes, and only then gets its new one.
"""

import heapq


class Timers:
    """A key has at most one time."""

    __slots__ = ("_due_ms", "_heap")

    def __init__(self) -> None:
        self._due_ms: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._due_ms)

    def set(self, key: str, due_ms: int | None) -> None:
        """From now on this is the key's time; None takes it away."""
        if due_ms is None:
            self._due_ms.pop(key, None)
        else:
            before_ms = self._due_ms.get(key)
            self._due_ms[key] = due_ms
            if before_ms is None or due_ms < before_ms:
                heapq.heappush(self._heap, (due_ms, key))
                self._tidy()

    @property
    def next_due_ms(self) -> int | None:
        """When to `take` next: not later than the next one is due, if there is one.

        It may be sooner: who asks all the time should not pay for keys that are put off all the
        time. After a `take` that had none it is exact.
        """
        return self._heap[0][0] if self._heap else None

    def take(self, now_ms: int) -> str | None:
        """The key that has been due for longest, which then has no time any more; None: none is."""
        self._settle_first()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, key = heapq.heappop(self._heap)
        del self._due_ms[key]
        return key

    def _settle_first(self) -> None:
        """Until the first of the heap is due when it says."""
        while self._heap:
            placed_ms, key = self._heap[0]
            due_ms = self._due_ms.get(key)
            if due_ms == placed_ms:
                return
            if due_ms is None or due_ms < placed_ms:
                heapq.heappop(self._heap)
            else:
                heapq.heapreplace(self._heap, (due_ms, key))

    def _tidy(self) -> None:
        """What was taken away or came sooner leaves its old place behind: not for ever."""
        if len(self._heap) > 64 + 4 * len(self._due_ms):
            self._heap = [(due_ms, key) for key, due_ms in self._due_ms.items()]
            heapq.heapify(self._heap)
