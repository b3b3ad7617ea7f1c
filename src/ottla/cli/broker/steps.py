"""The numbered lines of a start."""

from ottla.seams.clock import RealClock


class Steps:
    """Prints numbered lines, each with the time since the previous one."""

    def __init__(self) -> None:
        self._clock = RealClock()
        self._count = 0
        self._since_ns = self._clock.steady_ns()

    def done(self, what: str) -> None:
        self._count += 1
        now_ns = self._clock.steady_ns()
        seconds = (now_ns - self._since_ns) / 1e9
        self._since_ns = now_ns
        print(f" {self._count}  {what:<62} {seconds:6.2f} s", flush=True)
