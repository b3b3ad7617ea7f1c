"""Liveness and readiness of a node, with reasons."""

from collections.abc import Mapping, Sequence


class Condition:
    """A condition that is true unless a part of the node gives a reason against it."""

    __slots__ = ("_reasons",)

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def fail(self, part: str, reason: str) -> None:
        """Makes the condition false. A part has one reason at a time: the last one."""
        self._reasons[part] = reason

    def clear(self, part: str) -> None:
        """Removes this part's reason."""
        self._reasons.pop(part, None)

    def replace(self, before: Mapping[str, str], now: Mapping[str, str]) -> None:
        """Replaces the reasons of these parts by those of others."""
        for part in before.keys() - now.keys():
            self.clear(part)
        for part, reason in now.items():
            self.fail(part, reason)

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
        # Problems that need attention, though the node serves clients.
        self.warnings = Condition()

    def not_live(self) -> list[str]:
        """The reasons why the node is not alive; empty if it is."""
        return self.live.reasons

    def not_ready(self) -> list[str]:
        """The reasons why the node is not ready. A node that is not alive is not ready."""
        return [*self.live.reasons, *self.ready.reasons]


def some_of(names: Sequence[str], limit: int) -> str:
    """The first names, and how many more there are."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more} more" if more > 0 else "")
