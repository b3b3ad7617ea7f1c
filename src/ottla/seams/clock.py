"""The clock: wall time, steady time, and the identity of the machine's boot."""

import time
from functools import partial
from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since 1970, for timestamps that others read. May jump."""
        ...

    def steady_ns(self) -> int:
        """Nanoseconds since an arbitrary start. Monotonic; counts while the machine sleeps."""
        ...

    def boot_id(self) -> str:
        """Identifies this boot of the machine. While it is unchanged, the page cache survived."""
        ...


class RealClock:
    """The kernel's clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Called several times per request: a partial saves an interpreter frame per call.
    steady_ns = staticmethod(partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME))

    def boot_id(self) -> str:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
