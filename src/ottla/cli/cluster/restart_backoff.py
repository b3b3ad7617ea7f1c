"""When a process that ended is started again."""

DELAY_S_MIN = 1.0
DELAY_S_MAX = 30.0
# A process that lived for so long begins with the shortest delay again.
RESET_AFTER_S = 60.0


class RestartBackoff:
    """The delays of one process, doubling as long as it does not live for long."""

    def __init__(self) -> None:
        self._started_s = 0.0
        self._delay_s = DELAY_S_MIN

    def started(self, now_s: float) -> None:
        self._started_s = now_s

    def ended(self, now_s: float) -> float:
        """The seconds until the next start."""
        if now_s - self._started_s >= RESET_AFTER_S:
            self._delay_s = DELAY_S_MIN
        delay_s = self._delay_s
        self._delay_s = min(2 * delay_s, DELAY_S_MAX)
        return delay_s
