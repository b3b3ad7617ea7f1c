"""A power loss at an operation of the disk, whichever it is."""

import errno
from typing import Any

from tests.support.broker.simulated_broker import Machine


class PowerSwitch:
    """Ends it all before the disk's operation of a number, counted from `arm`.

    From then on the process may do what it wants: nothing of it reaches the disk.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._harmless = machine.disk.faults.error_for
        self._left: int | None = None
        self.is_off = False
        machine.disk.faults.error_for = self._error_for  # type: ignore[method-assign]

    def arm(self, count: int) -> None:
        self._left = count

    def disarm(self) -> None:
        self._left = None

    def _error_for(self, operation: Any, path: str) -> int:
        if self._left is not None:
            self._left -= 1
            if self._left < 0:
                self.is_off = True
                assert self._machine.files is not None
                self._machine.files.crash()
                return errno.EBADF
        return self._harmless(operation, path)
