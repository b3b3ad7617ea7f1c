"""What goes wrong on a simulated disk: by schedule, or at a rate under the seed."""

import errno
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from tests.sim.seams.entropy import SimEntropy

Operation = Literal[
    "open",
    "create",
    "read",
    "write",
    "truncate",
    "sync",
    "list",
    "make_dir",
    "rename",
    "remove",
    "remove_dir",
    "sync_dir",
    "lock",
]


@dataclass(frozen=True, slots=True)
class FaultRates:
    """How often each fault strikes by itself: probabilities for one operation."""

    read_error: float = 0.0
    write_error: float = 0.0
    sync_error: float = 0.0
    short_write: float = 0.0
    bit_flip: float = 0.0
    """A read finds that one bit of what it reads has rotted, for this and every later read."""
    cold: float = 0.0
    """What is about to be read is not in the page cache."""
    stall: float = 0.0
    """Any operation: virtual time passes while it lasts."""
    stall_ms_max: int = 1_000


NO_FAULTS = FaultRates()


@dataclass(slots=True)
class _Scheduled:
    operation: Operation
    pattern: str
    error: int
    spared: int
    """How many matching operations pass unharmed before it strikes."""
    short_bytes: int | None = None


class Faults:
    """The faults of one disk. A scheduled one strikes once, the first to match before the others.

    Patterns are shell patterns over whole paths, in which `*` also matches `/`.
    """

    def __init__(self, entropy: SimEntropy, stall: Callable[[int], None]) -> None:
        self.rates = NO_FAULTS
        self._entropy = entropy
        self._stall = stall
        self._scheduled: list[_Scheduled] = []

    def fail_next(
        self, operation: Operation, pattern: str = "*", *, error: int = errno.EIO, after: int = 0
    ) -> None:
        """The next such operation, after `after` more that pass, raises OSError with `error`."""
        self._scheduled.append(_Scheduled(operation, pattern, error, after))

    def fail_next_sync(self, pattern: str = "*", *, after: int = 0) -> None:
        """EIO, and what was unsynced is lost to every later sync, as Linux does."""
        self.fail_next("sync", pattern, after=after)

    def fail_next_read(self, pattern: str = "*", *, after: int = 0) -> None:
        self.fail_next("read", pattern, after=after)

    def fail_next_write(
        self, pattern: str = "*", *, error: int = errno.ENOSPC, after: int = 0
    ) -> None:
        self.fail_next("write", pattern, error=error, after=after)

    def shorten_next_write(self, pattern: str, to_bytes: int, *, after: int = 0) -> None:
        """The next write takes at most `to_bytes`, and says so."""
        self._scheduled.append(_Scheduled("write", pattern, 0, after, to_bytes))

    @property
    def is_any_scheduled(self) -> bool:
        """Whether one has not struck yet."""
        return bool(self._scheduled)

    def clear(self) -> None:
        """Nothing more goes wrong."""
        self.rates = NO_FAULTS
        self._scheduled.clear()

    def error_for(self, operation: Operation, path: str) -> int:
        """The errno with which this operation must fail, or 0. Time may pass on the way."""
        if self._entropy.chance(self.rates.stall):
            self._stall(self._entropy.between(1, self.rates.stall_ms_max))
        scheduled = self._strike(operation, path, short=False)
        if scheduled is not None:
            return scheduled.error
        return errno.EIO if self._entropy.chance(self._rate_of(operation)) else 0

    def bytes_taken(self, path: str, size: int) -> int:
        """How many of the `size` bytes of this write the disk takes."""
        scheduled = self._strike("write", path, short=True)
        if scheduled is not None and scheduled.short_bytes is not None:
            return min(size, scheduled.short_bytes)
        if size > 1 and self._entropy.chance(self.rates.short_write):
            return self._entropy.between(1, size - 1)
        return size

    def rotten_bit(self, size: int) -> int | None:
        """Which bit of the `size` bytes about to be read has rotted, if any."""
        if size and self._entropy.chance(self.rates.bit_flip):
            return self._entropy.below(size * 8)
        return None

    def is_cold(self) -> bool:
        """Whether a read would have to wait for the disk."""
        return self._entropy.chance(self.rates.cold)

    def _rate_of(self, operation: Operation) -> float:
        if operation == "read":
            return self.rates.read_error
        if operation == "write":
            return self.rates.write_error
        if operation in ("sync", "sync_dir"):
            return self.rates.sync_error
        return 0.0

    def _strike(self, operation: Operation, path: str, *, short: bool) -> _Scheduled | None:
        for index, fault in enumerate(self._scheduled):
            if (
                fault.operation == operation
                and (fault.short_bytes is not None) == short
                and fnmatchcase(path, fault.pattern)
            ):
                if fault.spared:
                    fault.spared -= 1
                    continue
                return self._scheduled.pop(index)
        return None
