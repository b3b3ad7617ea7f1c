"""What is due when, by key: one heap, in which a key that got another time is skipped."""

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
        elif self._due_ms.get(key) != due_ms:
            self._due_ms[key] = due_ms
            heapq.heappush(self._heap, (due_ms, key))
            self._tidy()

    @property
    def next_due_ms(self) -> int | None:
        """When `take` has the next one."""
        self._drop_stale()
        return self._heap[0][0] if self._heap else None

    def take(self, now_ms: int) -> str | None:
        """The key that has been due for longest, which then has no time any more; None: none is."""
        self._drop_stale()
        if not self._heap or self._heap[0][0] > now_ms:
            return None
        _, key = heapq.heappop(self._heap)
        del self._due_ms[key]
        return key

    def _drop_stale(self) -> None:
        while self._heap and self._due_ms.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)

    def _tidy(self) -> None:
        """Members renew their sessions all the time: the heap must not keep every old time."""
        if len(self._heap) > 64 + 4 * len(self._due_ms):
            self._heap = [(due_ms, key) for key, due_ms in self._due_ms.items()]
            heapq.heapify(self._heap)
