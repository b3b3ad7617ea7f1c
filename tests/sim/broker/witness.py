"""What happened under a seed, line by line, for whoever has to find out why it failed."""

from tests.sim.seams.clock import SimClock


class Witness:
    """A `Logger`, too: what the broker says stands between what was done to it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.clock: SimClock | None = None

    def note(self, event: str) -> None:
        now_s = self.clock.timeline.now_ns / 1e9 if self.clock else 0.0
        self.lines.append(f"{now_s:9.4f}  {event}")

    def debug(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        """Too much."""

    def info(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        """Too much, too."""

    def warning(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self.note(f"  broker warns: {event} {fields}")

    def error(self, event: str, /, *, repeats_of: str = "", **fields: object) -> None:
        self.note(f"  broker says: {event} {fields}")
