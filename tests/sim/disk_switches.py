"""Faults that a simulation sets off at a disk's operations: a death, and a failed log directory."""

import errno
from collections.abc import Callable
from fnmatch import fnmatchcase

from tests.sim.seams.faults import Faults, Operation

ANY_PATH = "*"


class DeathSwitch:
    """Ends the process before one of its next operations on the disk."""

    def __init__(self, faults: Faults, die: Callable[[], None]) -> None:
        self._error_for = faults.error_for
        self._die = die
        self._spared: int | None = None
        self._pattern = ANY_PATH
        self._operation: Operation | None = None
        setattr(faults, "error_for", self.error_for)  # noqa: B010 - the disk asks here first

    def arm(self, spared: int, pattern: str = ANY_PATH, operation: Operation | None = None) -> None:
        """Only operations of this kind on paths of this pattern count; None: of any kind."""
        self._spared = spared
        self._pattern = pattern
        self._operation = operation

    def disarm(self) -> None:
        self._spared = None

    def error_for(self, operation: Operation, path: str) -> int:
        if self._spared is not None and self._counts(operation, path):
            if self._spared == 0:
                self._spared = None
                self._die()
                # Not as the disk's answer: a sync that the disk refuses loses what it was to save.
                raise OSError(errno.EBADF, "the process is dead", path)
            self._spared -= 1
        return self._error_for(operation, path)

    def _counts(self, operation: Operation, path: str) -> bool:
        return self._operation in (None, operation) and fnmatchcase(path, self._pattern)


class FailedDirectory:
    """A directory of which every operation fails with EIO, while there is one."""

    def __init__(self, faults: Faults) -> None:
        self._error_for = faults.error_for
        self.path: str | None = None
        setattr(faults, "error_for", self.error_for)  # noqa: B010 - the disk asks here first

    def error_for(self, operation: Operation, path: str) -> int:
        if self.path is not None and (path == self.path or path.startswith(f"{self.path}/")):
            return errno.EIO
        return self._error_for(operation, path)
