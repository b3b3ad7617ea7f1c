"""Time, as the rest of Ottla may know it."""

import time
from functools import partial
from typing import Protocol


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since 1970: for timestamps that others will read. May jump."""
        ...

    def steady_ns(self) -> int:
        """Nanoseconds since some start, never backwards, counting while the machine sleeps."""
        ...

    def boot_id(self) -> str:
        """Names this run of the machine: while it is the same, the page cache has survived."""
        ...


class RealClock:
    """The kernel's clocks."""

    __slots__ = ()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Asked several times a request: a partial spares a frame of the interpreter each time.
    steady_ns = staticmethod(partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME))

    def boot_id(self) -> str:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
