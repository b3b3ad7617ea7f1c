"""What a node says of itself: whether it is alive, whether it is ready, and why not."""


class Condition:
    """Something that holds unless a part of the node says why not."""

    __slots__ = ("_reasons",)

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def fail(self, part: str, reason: str) -> None:
        """It does not hold; a part has one reason at a time, the last it gave."""
        self._reasons[part] = reason

    def clear(self, part: str) -> None:
        """As far as this part is concerned, it holds."""
        self._reasons.pop(part, None)

    @property
    def reasons(self) -> list[str]:
        return [f"{part}: {reason}" for part, reason in self._reasons.items()]


class Health:
    """Liveness and readiness, each with the reasons against it.

    A node that is not alive needs a restart. A node that is not ready needs time.
    """

    __slots__ = ("live", "ready", "warnings")

    def __init__(self) -> None:
        self.live = Condition()
        self.ready = Condition()
        # What somebody should see to, though the node serves.
        self.warnings = Condition()

    def not_live(self) -> list[str]:
        """Why the node is not alive; empty if it is."""
        return self.live.reasons

    def not_ready(self) -> list[str]:
        """Why the node is not ready. A node that is not alive is not ready either."""
        return [*self.live.reasons, *self.ready.reasons]
