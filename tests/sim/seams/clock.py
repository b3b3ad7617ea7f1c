"""Virtual time: one timeline for the whole simulation, and each machine's view of it."""

NS_PER_MS = 1_000_000


class Timeline:
    """The time that passes for everyone. The simulated loop moves it; nothing moves it back."""

    __slots__ = ("now_ns",)

    def __init__(self) -> None:
        self.now_ns = 0

    def advance_ns(self, elapsed_ns: int) -> None:
        if elapsed_ns < 0:
            raise ValueError(f"time does not run backwards: {elapsed_ns} ns")
        self.now_ns += elapsed_ns


class SimClock:
    """One machine's `Clock`. Machines that share a timeline each have their own wall and boots."""

    __slots__ = ("_boot_count", "_booted_at_ns", "_machine", "_wall_at_origin_ms", "timeline")

    def __init__(
        self,
        timeline: Timeline | None = None,
        *,
        machine: str = "machine",
        wall_ms: int = 1_700_000_000_000,
    ) -> None:
        self.timeline = timeline if timeline is not None else Timeline()
        self._machine = machine
        self._wall_at_origin_ms = wall_ms - self.timeline.now_ns // NS_PER_MS
        self._booted_at_ns = self.timeline.now_ns
        self._boot_count = 1

    def wall_ms(self) -> int:
        return self._wall_at_origin_ms + self.timeline.now_ns // NS_PER_MS

    def steady_ns(self) -> int:
        return self.timeline.now_ns - self._booted_at_ns

    def boot_id(self) -> str:
        return f"{self._machine}-boot-{self._boot_count}"

    def advance(self, *, ms: int = 0, ns: int = 0) -> None:
        """Lets time pass, for every machine on this timeline."""
        self.timeline.advance_ns(ms * NS_PER_MS + ns)

    def jump_wall(self, ms: int) -> None:
        """Somebody sets this machine's wall clock, forwards or backwards."""
        self._wall_at_origin_ms += ms

    def reboot(self) -> None:
        """A new run of the machine: a new boot id, and `steady_ns` starts again from nothing."""
        self._boot_count += 1
        self._booted_at_ns = self.timeline.now_ns
